#include "launch/manifest/inputs/differences.h"

#include <boost/test/unit_test.hpp>

#include "launch/manifest/resolve/run_spec.h"
#include "tests/launch/manifest_text.h"
#include "tests/support/checkpoint_files.h"
#include "tests/support/expect_error.h"

// What a user is told if a run resumes with other settings than its checkpoint was trained with.

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(differences_test)

namespace {

stages::CheckpointInfo trained_info() {
  stages::CheckpointInfo info = small_info(7);
  info.model.dtype = tensor::DType::f32;
  info.training = {.seed = 1, .digest = "aa", .shuffle = false, .global = 16, .lr = 1e-3};
  return info;
}

/// The manifest of a run that resumes with the corpus of trained_info().
launch::Manifest going_on(const std::vector<std::string>& overrides = {},
                          const std::string& digest = "aa") {
  launch::Manifest m = checked(kSmallManifest, overrides);
  m.resolve(m->data.digest, digest);
  return m;
}

/// Expects a refusal with this phrase, unless the user overrides it or no sample is used yet, in
/// which case it is only told.
void cursor_differs(const std::vector<std::string>& overrides, const std::string& phrase,
                    stages::CheckpointInfo info = trained_info(),
                    const std::string& digest = "aa") {
  const launch::Manifest m = going_on(overrides, digest);
  expect_error(ErrorKind::data, {"step 7", "112", phrase, "weights_only", "other_data"},
               [&] { launch::check_cursor(m, info); });
  auto meant = overrides;
  meant.push_back("checkpoint.other_data=true");
  launch::check_cursor(going_on(meant, digest), info);
  BOOST_TEST(launch::differences(going_on(meant, digest), info).all().front() == phrase);
  info.next_sample = 0;
  launch::check_cursor(m, info);
  BOOST_TEST(launch::differences(m, info).told.front() == phrase);
}

void only_told(const std::vector<std::string>& overrides, const std::string& phrase,
               const stages::CheckpointInfo& info = trained_info()) {
  const auto found = launch::differences(going_on(overrides), info);
  BOOST_TEST(found.cursor.empty());
  BOOST_TEST(found.told == std::vector{phrase}, boost::test_tools::per_element());
}

}  // namespace

BOOST_AUTO_TEST_CASE(the_same_run_differs_in_nothing) {
  BOOST_TEST(launch::differences(going_on(), trained_info()).all().empty());
  BOOST_TEST(launch::differences(going_on({"mesh.pp=3", "mesh.dp=2", "schedule.kind=gpipe",
                                           "batch.micro=1", "run.max_steps=99"}),
                                 trained_info())
                 .all()
                 .empty());
}

BOOST_AUTO_TEST_CASE(a_cursor_that_means_other_samples_is_refused_unless_it_is_meant) {
  cursor_differs({"batch.seq_len=32"}, "batch.seq_len is 32, was 64");
  cursor_differs({"data.shuffle=true"}, "data.shuffle is true, was false");
  cursor_differs({}, "data.files hold other tokens (XXH64 bb, was aa)", trained_info(), "bb");
  auto responses = trained_info();
  responses.training->loss_on = "response";
  cursor_differs({}, "data.loss_on is all, was response", responses);
  auto shuffled = trained_info();
  shuffled.training->shuffle = true;
  cursor_differs({"data.shuffle=true", "run.seed=2"}, "run.seed is 2, was 1", shuffled);
  cursor_differs({"data.tokenizer=/a/spm.model"}, "data.tokenizer is /a/spm.model, was bytes");
  auto words = trained_info();
  words.tokenizer = "/b/spm.model";
  cursor_differs({}, "data.tokenizer is bytes, was /b/spm.model", words);
  // A SentencePiece model at another path is recognized by its tokens.
  launch::check_cursor(going_on({"data.tokenizer=/a/spm.model"}), words);
}

BOOST_AUTO_TEST_CASE(what_changes_no_sample_is_told) {
  only_told({"run.seed=2"}, "run.seed is 2, was 1");
  only_told({"batch.global=8"}, "batch.global is 8, was 16");
  only_told({"model.dtype=bfloat16"}, "model.dtype is bfloat16, was float32");
  only_told({"optimizer.lr=0.002"},
            "step 7 had a learning rate of 0.001, the settings of now give it 0.002");
  auto first = trained_info();
  first.step = 0;
  BOOST_TEST(launch::differences(going_on({"optimizer.lr=0.002"}), first).all().empty());
}

BOOST_AUTO_TEST_CASE(an_older_checkpoint_is_compared_as_far_as_it_goes) {
  auto old = trained_info();
  old.training.reset();
  only_told({}, "the checkpoint does not say on which corpus, seed and batch it was trained", old);
  expect_error(ErrorKind::data, {"seq_len is 32"},
               [&] { launch::check_cursor(going_on({"batch.seq_len=32"}), old); });
  // Before the text is tokenized, as in a plan.
  BOOST_TEST(launch::differences(going_on({}, ""), trained_info()).all().empty());
}

BOOST_AUTO_TEST_CASE(steps_after_the_decay_are_told_where_they_train_nothing) {
  const auto warning = [](const std::vector<std::string>& overrides) {
    return launch::dead_steps_warning(launch::to_run_spec(checked(kSmallManifest, overrides)));
  };
  const std::string found =
      warning({"optimizer.decay=cosine", "optimizer.decay_steps=8", "optimizer.warmup_steps=2"});
  BOOST_TEST(found.find("from step 10 on") != std::string::npos, found);
  BOOST_TEST(found.find("decay_steps = 10") != std::string::npos, found);
  BOOST_TEST(warning({}) == "");
  BOOST_TEST(warning({"optimizer.decay=cosine"}) == "");
  BOOST_TEST(warning({"optimizer.decay=wsd"}) == "");
  BOOST_TEST(warning({"optimizer.decay=linear", "optimizer.decay_steps=8",
                      "optimizer.min_lr=1e-5"}) == "");
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test
