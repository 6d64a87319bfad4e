#include "launch/run/resume.h"

#include <boost/test/unit_test.hpp>

#include "launch/manifest/inputs/inputs.h"
#include "launch/manifest/resolve/resolve.h"
#include "tests/launch/manifest_text.h"
#include "tests/support/checkpoint_files.h"
#include "tests/support/expect_error.h"
#include "tests/support/temp_dir.h"

// Tests from which checkpoint a run resumes: its newest sound one, or the one that the manifest
// names.

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(resume_test)

namespace {

namespace fs = std::filesystem;

/// Writes checkpoints of these steps into a run directory.
void save(const TempDir& run, const std::vector<std::int64_t>& steps) {
  for (const std::int64_t step : steps)
    write_checkpoint(run / "checkpoints", small_info(step),
                     {0, static_cast<int>(small_model().num_hidden_layers)});
}

/// Shortens the files of a checkpoint's weights.
void tear(const fs::path& checkpoint) {
  for (const auto& entry : fs::directory_iterator(checkpoint))
    if (entry.path().extension() == ".safetensors")
      fs::resize_file(entry.path(), entry.file_size() - 4);
}

/// A manifest that fits small_info(), as if it were resolved.
launch::Manifest manifest_for(const fs::path& checkpoint,
                              const std::vector<std::string>& more = {}) {
  const stages::ModelConfig model = small_model();
  const auto set = [](const char* key, auto value) {
    return std::string(key) + "=" + std::to_string(value);
  };
  std::vector<std::string> overrides{
      set("model.hidden_size", model.hidden_size),
      set("model.intermediate_size", model.intermediate_size),
      set("model.num_hidden_layers", model.num_hidden_layers),
      set("model.num_attention_heads", model.num_attention_heads),
      set("model.num_key_value_heads", model.num_key_value_heads),
      set("model.head_dim", model.head_dim),
      set("model.vocab_size", model.vocab_size),
      std::string("model.tie_word_embeddings=") + (model.tie_word_embeddings ? "true" : "false"),
      "batch.micro=1",
      "checkpoint.resume=" + checkpoint.string()};
  overrides.insert(overrides.end(), more.begin(), more.end());
  auto m = launch::Manifest::parse(kSmallManifest, "m.toml", overrides);
  launch::resolve(m, kMachine);
  return m;
}

}  // namespace

BOOST_AUTO_TEST_CASE(the_newest_sound_checkpoint_is_taken) {
  const TempDir run;
  BOOST_TEST(launch::find_resume_point(run.path()).path.empty());
  save(run, {2, 9, 10});
  fs::create_directories(run / "checkpoints/step-11.tmp");
  fs::create_directories(run / "checkpoints/step-x");
  const auto point = launch::find_resume_point(run.path());
  BOOST_TEST(point.path == run / "checkpoints/step-10");
  BOOST_TEST(point.checkpoint->info().step == 10);
  BOOST_TEST(point.torn.empty());
}

BOOST_AUTO_TEST_CASE(torn_ones_are_passed_over_and_named) {
  const TempDir run;
  save(run, {2, 9, 10});
  tear(run / "checkpoints/step-10");
  fs::remove(run / "checkpoints/step-9/state.json");
  const auto point = launch::find_resume_point(run.path());
  BOOST_TEST(point.path == run / "checkpoints/step-2");
  BOOST_REQUIRE(point.torn.size() == 2u);
  BOOST_TEST(point.torn[0].path == run / "checkpoints/step-10");
  BOOST_TEST(point.torn[0].reason.find("step-10") != std::string::npos, point.torn[0].reason);
  BOOST_TEST(point.torn[1].reason.find("step-9") != std::string::npos, point.torn[1].reason);
  for (const auto& torn : point.torn) launch::set_aside(torn);
  BOOST_TEST(fs::exists(run / "checkpoints/step-10.torn"));
  BOOST_TEST(!fs::exists(run / "checkpoints/step-10"));
  BOOST_TEST(launch::find_resume_point(run.path()).torn.empty());
}

BOOST_AUTO_TEST_CASE(those_of_other_runs_are_passed_over_and_named) {
  const TempDir run;
  save(run, {2, 9, 100, 1000});
  stages::note_newest(run / "checkpoints", 9);
  const auto point = launch::find_resume_point(run.path());
  BOOST_TEST(point.path == run / "checkpoints/step-9");
  BOOST_TEST(point.torn.empty());
  BOOST_REQUIRE(point.of_others.size() == 2u);
  BOOST_TEST(point.of_others[0] == run / "checkpoints/step-100");
}

BOOST_AUTO_TEST_CASE(a_flipped_bit_in_the_weights_is_found) {
  const TempDir run;
  save(run, {4});
  for (const auto& entry : fs::directory_iterator(run / "checkpoints/step-4")) {
    if (!entry.path().filename().string().starts_with("optimizer-")) continue;
    std::string bytes = content_of(entry.path());
    bytes[bytes.size() - 3] ^= 1;
    write_file(entry.path(), bytes);
  }
  BOOST_TEST(launch::find_resume_point(run.path()).path.empty());
  expect_error(ErrorKind::data, {"checkpoint", "optimizer-"},
               [&] { launch::check_start(manifest_for(run / "checkpoints/step-4")); });
}

BOOST_AUTO_TEST_CASE(a_manifest_may_name_the_checkpoint_of_another_run) {
  const TempDir run;
  save(run, {7});
  const auto from = run / "checkpoints/step-7";
  BOOST_TEST(launch::check_start(manifest_for(from)).value().step == 7);
  BOOST_TEST(!launch::check_start(
      manifest_for(from, {"checkpoint.weights_only=true", "batch.seq_len=8", "run.max_steps=2"})));
  BOOST_TEST(launch::check_start(manifest_for(from, {"batch.global=8"})).value().step == 7);
  const auto refused = [&](const std::string& override_, ErrorKind kind,
                           const std::vector<std::string>& words) {
    expect_error(kind, words, [&] { launch::check_start(manifest_for(from, {override_})); });
  };
  refused("model.vocab_size=512", ErrorKind::data,
          {"--set checkpoint.resume=", "vocab_size", "512"});
  refused("batch.seq_len=32", ErrorKind::data, {"batch.seq_len is 32, was 64", "other_data"});
  refused("run.max_steps=7", ErrorKind::manifest,
          {"--set run.max_steps=7", "step 7", "at least 8"});
  refused("checkpoint.resume=/nowhere/step-3", ErrorKind::data, {"/nowhere/step-3", "checkpoint"});
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test
