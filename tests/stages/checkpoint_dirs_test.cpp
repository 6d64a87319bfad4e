#include <boost/test/unit_test.hpp>

#include "stages/checkpoint.h"
#include "tests/support/checkpoint_files.h"
#include "tests/support/expect_error.h"
#include "tests/support/temp_dir.h"

using namespace troupe;
using namespace troupe::stages;
using test::expect_error;
using test::small_info;
using test::write_checkpoint;

namespace fs = std::filesystem;

namespace {

struct Fixture {
  test::TempDir run;

  void complete(const std::string& name) {
    fs::create_directories(run / name);
    std::ofstream(run / name / "state.json") << "{}";
  }
  std::vector<std::int64_t> steps() const { return complete_checkpoints(run.path()); }
};

using Steps = std::vector<std::int64_t>;

}  // namespace

BOOST_FIXTURE_TEST_SUITE(checkpoint_dirs, Fixture)

BOOST_AUTO_TEST_CASE(complete_ones_are_listed_by_number) {
  for (const char* name : {"step-10", "step-9", "step-0", "step-100", "step-7.tmp", "step-07",
                           "step-", "step--1", "step-5x", "other", "step-99999999999999999999"})
    complete(name);
  fs::create_directories(run / "step-8");
  run.write("step-6", "a file");
  BOOST_TEST((steps() == Steps{0, 9, 10, 100}));
  BOOST_TEST(complete_checkpoints(run / "nowhere").empty());
}

BOOST_AUTO_TEST_CASE(the_newest_are_kept_and_step_0_beside_them) {
  for (const int step : {0, 5, 10, 15, 20}) complete("step-" + std::to_string(step));
  prune_checkpoints(run.path(), 2);
  BOOST_TEST((steps() == Steps{0, 15, 20}));
  prune_checkpoints(run.path(), 2);
  BOOST_TEST((steps() == Steps{0, 15, 20}));
  prune_checkpoints(run.path(), 1);
  BOOST_TEST((steps() == Steps{0, 20}));
}

BOOST_AUTO_TEST_CASE(unfinished_ones_are_removed_and_nothing_else) {
  complete("step-5");
  complete("step-6.tmp");
  complete("step-6.00ff.tmp");
  fs::create_directories(run / "step-7");
  fs::create_directories(run / "notes.tmp");
  run.write("readme", "x");
  prune_checkpoints(run.path(), 3);
  BOOST_TEST(fs::exists(run / "step-5"));
  BOOST_TEST(!fs::exists(run / "step-6.tmp"));
  BOOST_TEST(!fs::exists(run / "step-6.00ff.tmp"));
  BOOST_TEST(!fs::exists(run / "step-7"));
  BOOST_TEST(fs::exists(run / "notes.tmp"));
  BOOST_TEST(fs::exists(run / "readme"));
}

BOOST_AUTO_TEST_CASE(nothing_of_an_unfinished_attempt_is_in_a_new_one) {
  const fs::path dir = unfinished_checkpoint(run.path(), 7);
  BOOST_TEST(unfinished_checkpoint(run.path(), 7) != dir);
  fs::create_directories(dir);
  test::write_file(dir / "model-00003-of-00003.safetensors", "old");
  test::write_file(dir / "state.json", "old");
  const test::FakeStage stage(test::small_model(), 0, 3);
  write_checkpoint_part(dir, stage, test::small_model(), {});
  finish_checkpoint(dir, small_info(7), 1);
  BOOST_TEST(!fs::exists(run / "step-7/model-00003-of-00003.safetensors"));
  BOOST_CHECK_NO_THROW(CheckpointReader::open(run / "step-7")->verify());
}

BOOST_AUTO_TEST_CASE(a_directory_that_cannot_be_made_is_named) {
  run.write("file", "x");
  const test::FakeStage stage(test::small_model(), 0, 3);
  const fs::path dir = unfinished_checkpoint(run / "file", 7);
  expect_error(ErrorKind::internal, {dir.string()},
               [&] { write_checkpoint_part(dir, stage, test::small_model(), {}); });
}

BOOST_AUTO_TEST_CASE(one_that_is_stopped_is_not_complete) {
  const fs::path dir = unfinished_checkpoint(run.path(), 7);
  test::FakeStage stage(test::small_model(), 0, 3);
  stage.fill();
  std::atomic<std::uint64_t> written{0};
  write_checkpoint_part(dir, stage, test::small_model(), {}, &written);
  BOOST_TEST(written > 0u);
  std::stop_source stop;
  stop.request_stop();
  expect_error(ErrorKind::retry, {"stopped"},
               [&] { finish_checkpoint(dir, small_info(7), 1, {}, stop.get_token()); });
  BOOST_TEST(complete_checkpoints(run.path()).empty());
}

BOOST_AUTO_TEST_CASE(a_complete_one_is_not_replaced_and_an_incomplete_one_is) {
  write_checkpoint(run.path(), small_info(7), {0, 3});
  const std::string before = test::content_of(run / "step-7/state.json");
  CheckpointInfo other = small_info(7);
  other.next_sample = 1;
  expect_error(ErrorKind::data, {"step-7", "not replaced"}, [&] {
    write_checkpoint(run.path(), other, {0, 3});
  });
  BOOST_TEST(test::content_of(run / "step-7/state.json") == before);
  fs::remove(run / "step-7/state.json");
  write_checkpoint(run.path(), other, {0, 3});
  BOOST_TEST(CheckpointReader::open(run / "step-7")->info().next_sample == 1);
  prune_checkpoints(run.path(), 1);  // what the refused one has left
  for (const auto& entry : fs::directory_iterator(run.path()))
    BOOST_TEST(entry.path().filename() == "step-7");
}

BOOST_AUTO_TEST_SUITE_END()
