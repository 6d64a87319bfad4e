#include <boost/test/unit_test.hpp>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "stages/files/checkpoint/checkpoint.h"
#include "stages/files/checkpoint/checkpoint_state.h"
#include "stages/files/safetensors/finite_values.h"
#include "tests/support/checkpoint_files.h"
#include "tests/support/expect_error.h"
#include "tests/support/file_size_limit.h"
#include "tests/support/temp_dir.h"

BOOST_AUTO_TEST_SUITE(checkpoint_damage_test)

using namespace troupe;
using namespace troupe::stages;
using nlohmann::json;
using test::expect_error;
using test::FakeStage;
using test::small_info;
using test::write_checkpoint;

namespace fs = std::filesystem;

namespace {

const std::string kWeights = "model-00001-of-00001.safetensors";
const std::string kOptimizer = "optimizer-00001-of-00001.safetensors";

/// A sound checkpoint that is written once, because syncing one for every case would take most of
/// the time.
const fs::path& sound_checkpoint() {
  static const test::TempDir run;
  static const fs::path dir = write_checkpoint(run.path(), small_info(), {0, 3});
  return dir;
}

/// A copy of the sound checkpoint, to be damaged.
struct Fixture {
  test::TempDir run;
  fs::path dir = run / "step-7";

  Fixture() { fs::copy(sound_checkpoint(), dir); }

  void write(const std::string& name, const std::string& content) {
    test::write_file(dir / name, content);
  }
  void flip(const std::string& name, std::uint64_t at) {
    std::string content = test::content_of(dir / name);
    content[at] ^= 1;
    write(name, content);
  }
  void refused(const std::vector<std::string>& words) {
    expect_error(ErrorKind::data, words, [&] { CheckpointReader::open(dir); });
  }
  /// Lets `change` edit state.json.
  template <typename Change>
  void edit_state(Change&& change) {
    json state = json::parse(test::content_of(dir / "state.json"));
    change(state);
    write("state.json", state.dump());
  }
  /// Replaces a file and makes state.json agree with it, so that only the file's content can be
  /// refused.
  void replace(const std::string& name, const std::string& content) {
    write(name, content);
    const FileRecord record = record_of(dir / name);
    edit_state([&](json& state) {
      state["files"][name] = {{"size", record.size}, {"xxh64", record.sum}};
    });
  }
  template <typename Change>
  void edit_config(Change&& change) {
    json config = json::parse(test::content_of(dir / "config.json"));
    change(config);
    replace("config.json", config.dump());
  }
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(checkpoint_damage, Fixture)

BOOST_AUTO_TEST_CASE(what_is_no_checkpoint_is_refused_by_name) {
  const test::TempDir elsewhere;
  const auto not_one = [](const fs::path& path, const std::string& why) {
    expect_error(ErrorKind::data, {path.string(), "not a complete checkpoint", why},
                 [&] { CheckpointReader::open(path); });
  };
  not_one(elsewhere / "nowhere", "no such directory");
  not_one(elsewhere.write("file", "x"), "not a directory");
  not_one(elsewhere.path(), "neither state.json");
}

BOOST_AUTO_TEST_CASE(the_nearest_complete_one_is_offered) {
  const test::TempDir runs;
  const fs::path checkpoints = runs / "checkpoints";
  write_checkpoint(checkpoints, small_info(3), {0, 3});
  write_checkpoint(checkpoints, small_info(12), {0, 3});
  const std::string newest = (checkpoints / "step-12").string() + " is complete";
  for (const fs::path& path : {checkpoints / "step-11", checkpoints, runs.path()})
    expect_error(ErrorKind::data, {newest}, [&] { CheckpointReader::open(path); });
}

BOOST_AUTO_TEST_CASE(a_torn_file_is_refused_by_name) {
  for (const std::string& name : {kWeights, kOptimizer}) {
    Fixture fresh;
    fs::resize_file(fresh.dir / name, fs::file_size(fresh.dir / name) - 100);
    fresh.refused({"checkpoint", fresh.dir.string(), name, "not a complete safetensors file"});
  }
}

BOOST_AUTO_TEST_CASE(a_missing_file_is_refused_by_name) {
  for (const auto& entry : fs::directory_iterator(dir)) {
    const std::string name = entry.path().filename().string();
    Fixture fresh;
    fs::remove(fresh.dir / name);
    fresh.refused({"checkpoint", name});
  }
}

BOOST_AUTO_TEST_CASE(a_changed_byte_anywhere_is_found) {
  for (const std::string name : {"config.json", "model.safetensors.index.json"}) {
    Fixture fresh;
    fresh.flip(name, fs::file_size(dir / name) / 2);
    fresh.refused({"checkpoint", name, "checksum"});
  }
  for (const std::string& name : {kWeights, kOptimizer}) {
    Fixture fresh;
    fresh.flip(name, fs::file_size(dir / name) - 1);
    const auto reader = CheckpointReader::open(fresh.dir);
    expect_error(ErrorKind::data, {"checkpoint", name, "damaged"}, [&] { reader->verify(); });
    FakeStage stage(test::small_model(), 0, 3);
    expect_error(ErrorKind::data, {"checkpoint", name, "damaged"},
                 [&] { reader->load(stage, false); });
    BOOST_TEST(stage.times_changed() == 0);
  }
  const std::string header = test::content_of(dir / kWeights).substr(0, 200);
  flip(kWeights, header.find("xxh64:") + 40);  // inside a tensor's checksum or name
  refused({"checkpoint", kWeights});
}

BOOST_AUTO_TEST_CASE(a_wrong_state_is_refused_with_the_member) {
  const auto wrong = [](const std::string& word, auto change) {
    Fixture fresh;
    fresh.edit_state(change);
    fresh.refused({"checkpoint", "state.json", word});
  };
  wrong("format", [](json& s) { s["format"] = "other"; });
  wrong("version 2", [](json& s) { s["version"] = 2; });
  wrong("\"step\" is missing", [](json& s) { s.erase("step"); });
  wrong("\"step\" is a string", [](json& s) { s["step"] = "7"; });
  wrong("\"step\" is a number", [](json& s) { s["step"] = 7.5; });
  wrong("\"step\" is a number", [](json& s) { s["step"] = 0x8000000000000000; });
  wrong("step -1", [](json& s) { s["step"] = -1; });
  wrong("seq_len 0", [](json& s) { s["seq_len"] = 0; });
  wrong("dtype is float16", [](json& s) { s["dtype"] = "float16"; });
  wrong("\"tokenizer\"", [](json& s) { s["tokenizer"] = nullptr; });
  wrong("\"files\" is no object", [](json& s) { s["files"] = 1; });
  wrong("../config.json", [](json& s) {
    s["files"]["../config.json"] = {{"size", 1}, {"xxh64", ""}};
  });
  wrong("entry \"\"", [](json& s) { s["files"][""] = {{"size", 1}, {"xxh64", ""}}; });
  wrong("\"size\"", [](json& s) { s["files"]["config.json"].erase("size"); });
  for (const std::string content : {"", "{", "[]", "null", "\xff"}) {
    write("state.json", content);
    refused({"checkpoint", "state.json", "JSON"});
  }
}

BOOST_AUTO_TEST_CASE(a_state_that_lists_no_tensors_is_refused) {
  edit_state([](json& state) { state["files"].erase(kOptimizer); });
  refused({"checkpoint", "tensors"});
}

BOOST_AUTO_TEST_CASE(a_wrong_config_is_refused_with_the_field) {
  const auto wrong = [](const std::string& word, auto change) {
    Fixture fresh;
    fresh.edit_config(change);
    fresh.refused({"checkpoint", word});
  };
  wrong("model_type = \"mamba\"", [](json& c) { c["model_type"] = "mamba"; });
  wrong("embed_tokens", [](json& c) { c.erase("hidden_size"); });
  wrong("hidden_size", [](json& c) { c["hidden_size"] = -8; });
  wrong("num_attention_heads", [](json& c) { c["num_attention_heads"] = 3; });
  wrong("embed_tokens", [](json& c) { c["vocab_size"] = 17; });
  wrong("lm_head.weight is no part", [](json& c) { c["tie_word_embeddings"] = true; });
  wrong("num_hidden_layers", [](json& c) { c["num_hidden_layers"] = 0; });
  wrong("layers", [](json& c) { c["num_hidden_layers"] = 1000000000; });
  wrong("model.layers.3", [](json& c) { c["num_hidden_layers"] = 4; });
  wrong("model.layers.2", [](json& c) { c["num_hidden_layers"] = 2; });
}

BOOST_AUTO_TEST_CASE(a_tensor_in_two_files_is_refused) {
  fs::copy_file(dir / kWeights, dir / "model-00002-of-00002.safetensors");
  replace("model-00002-of-00002.safetensors", test::content_of(dir / kWeights));
  refused({"checkpoint", "is in", kWeights, "model-00002-of-00002.safetensors"});
}

BOOST_AUTO_TEST_CASE(a_tensor_without_a_checksum_is_refused) {
  for (const std::string& name : {kWeights, kOptimizer}) {
    Fixture fresh;
    std::string content = test::content_of(fresh.dir / name);
    content.replace(content.find("xxh64:model.layers.1"), 6, "other:");
    fresh.replace(name, content);
    fresh.refused({"checkpoint", name, "tensor model.layers.1", "has no checksum"});
  }
}

BOOST_AUTO_TEST_CASE(parts_that_do_not_hold_the_whole_model_are_not_finished) {
  const test::TempDir other;
  const ModelConfig model = test::small_model();
  const auto write = [&](const fs::path& unfinished, const Stage& stage, int part) {
    write_checkpoint_part(unfinished, stage, model, {.part = part, .num_parts = 2, .sharding = {}});
  };
  const auto refused = [](const fs::path& unfinished, const std::vector<std::string>& words) {
    expect_error(ErrorKind::data, words, [&] { finish_checkpoint(unfinished, small_info(), 2); });
  };
  const FakeStage first(model, 0, 1), last(model, 2, 3);
  const fs::path twice = unfinished_checkpoint(other.path(), 7);
  write(twice, first, 0);
  refused(twice, {"model-00002-of-00002.safetensors"});
  write(twice, first, 1);
  refused(twice, {"is in"});
  const fs::path gap = unfinished_checkpoint(other.path(), 7);
  write(gap, first, 0);
  write(gap, last, 1);
  refused(gap, {"model.layers.1", "missing"});
  BOOST_TEST(complete_checkpoints(other.path()).empty());
}

BOOST_AUTO_TEST_CASE(a_state_that_is_not_finite_is_not_written) {
  const ModelConfig model = test::small_model();
  FakeStage stage(model, 0, 3);
  stage.fill();
  const float infinity = std::numeric_limits<float>::infinity();
  for (const Parameter& parameter : stage.parameters()) {
    if (parameter.name != "model.layers.1.mlp.up_proj.weight") continue;
    for (const auto& [values, suffix] : {std::pair(parameter.weight, ""),
                                         {parameter.exp_avg, ".exp_avg"},
                                         {parameter.exp_avg_sq, ".exp_avg_sq"}}) {
      float& value =
          test::opened(values).as<float>()[static_cast<std::size_t>(values.shape[1] + 2)];
      const float before = std::exchange(value, -infinity);
      const fs::path unfinished = unfinished_checkpoint(run.path(), 8);
      BOOST_CHECK_EXCEPTION(
          write_checkpoint_part(unfinished, stage, model, {}), NotFinite, [&](const Error& error) {
            return std::string(error.what())
                .starts_with("tensor " + parameter.name + suffix + " is -inf at [1, 2]: ");
          });
      BOOST_CHECK_THROW(finish_checkpoint(unfinished, small_info(8), 1), Error);
      value = before;
    }
  }
}

BOOST_AUTO_TEST_CASE(a_full_disk_never_makes_a_complete_checkpoint) {
  FakeStage stage(test::small_model(), 0, 3);
  const fs::path unfinished = unfinished_checkpoint(run.path(), 8);
  {
    const test::FileSizeLimit limit(5000);
    expect_error(ErrorKind::internal, {kWeights, "File too large"},
                 [&] { write_checkpoint_part(unfinished, stage, test::small_model(), {}); });
  }
  BOOST_CHECK_THROW(finish_checkpoint(unfinished, small_info(8), 1), Error);
  write_checkpoint_part(unfinished, stage, test::small_model(), {});
  {
    const test::FileSizeLimit limit(100);
    expect_error(ErrorKind::internal, {"File too large"},
                 [&] { finish_checkpoint(unfinished, small_info(8), 1); });
  }
  BOOST_TEST((complete_checkpoints(run.path()) == std::vector<std::int64_t>{7}));
  BOOST_CHECK_THROW(CheckpointReader::open(unfinished), Error);
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE_END()
