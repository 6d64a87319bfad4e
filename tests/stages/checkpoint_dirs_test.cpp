#include <boost/test/unit_test.hpp>

#include "stages/files/checkpoint/checkpoint.h"
#include "stages/files/checkpoint/room.h"
#include "stages/storage/output_file.h"
#include "tests/support/checkpoint_files.h"
#include "tests/support/expect_error.h"
#include "tests/support/file_size_limit.h"
#include "tests/support/temp_dir.h"

BOOST_AUTO_TEST_SUITE(checkpoint_dirs_test)

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
  prune_checkpoints(run.path(), {.newest = 2, .set = ""});
  BOOST_TEST((steps() == Steps{0, 15, 20}));
  prune_checkpoints(run.path(), {.newest = 2, .set = ""});
  BOOST_TEST((steps() == Steps{0, 15, 20}));
  prune_checkpoints(run.path(), {.newest = 1, .set = ""});
  BOOST_TEST((steps() == Steps{0, 20}));
}

BOOST_AUTO_TEST_CASE(unfinished_ones_are_removed_and_nothing_else) {
  complete("step-5");
  complete("step-6.tmp");
  complete("step-6.00ff.tmp");
  fs::create_directories(run / "step-7");
  fs::create_directories(run / "notes.tmp");
  run.write("readme", "x");
  prune_checkpoints(run.path(), {.newest = 3, .set = ""});
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

BOOST_AUTO_TEST_CASE(a_complete_one_of_others_is_set_aside_and_an_incomplete_one_removed) {
  write_checkpoint(run.path(), small_info(7), {0, 3});
  const std::string before = test::content_of(run / "step-7/state.json");
  CheckpointInfo other = small_info(7);
  for (const char* aside : {"step-7.other", "step-7.other-2"}) {
    ++other.next_sample;
    write_checkpoint(run.path(), other, {0, 3});
    BOOST_TEST(CheckpointReader::open(run / "step-7")->info().next_sample == other.next_sample);
    BOOST_CHECK_NO_THROW(CheckpointReader::open(run / aside)->verify());
  }
  BOOST_TEST(test::content_of(run / "step-7.other/state.json") == before);
  fs::remove(run / "step-7/state.json");
  other.next_sample = 1;
  write_checkpoint(run.path(), other, {0, 3});
  BOOST_TEST(CheckpointReader::open(run / "step-7")->info().next_sample == 1);
  BOOST_TEST(!fs::exists(run / "step-7.other-3"));
}

BOOST_AUTO_TEST_CASE(those_of_other_runs_neither_count_nor_go) {
  for (const int step : {0, 5, 10, 1000}) complete("step-" + std::to_string(step));
  fs::create_directories(run / "step-2000");                           // is just being copied
  BOOST_TEST((own_checkpoints(run.path()) == Steps{0, 5, 10, 1000}));  // as older versions left it
  note_newest(run.path(), 10);
  BOOST_TEST((own_checkpoints(run.path()) == Steps{0, 5, 10}));
  BOOST_TEST(is_own_checkpoint(run.path(), 10));
  BOOST_TEST(!is_own_checkpoint(run.path(), 1000));
  prune_checkpoints(run.path(), {.newest = 1, .set = ""});
  BOOST_TEST((steps() == Steps{0, 10, 1000}));
  BOOST_TEST(fs::exists(run / "step-2000"));
  note_newest(run.path(), -1);
  BOOST_TEST(own_checkpoints(run.path()).empty());
  run.write("newest", "nonsense");
  BOOST_TEST((own_checkpoints(run.path()) == Steps{0, 10, 1000}));
}

BOOST_AUTO_TEST_CASE(the_step_that_is_saved_is_noted) {
  write_checkpoint(run.path(), small_info(7), {0, 3});
  BOOST_TEST(test::content_of(run / "newest") == "step-7\n");
}

BOOST_AUTO_TEST_CASE(old_ones_make_room_one_after_the_other_and_the_newest_stays) {
  for (const int step : {0, 5, 10, 15, 1000}) complete("step-" + std::to_string(step));
  note_newest(run.path(), 15);
  int attempts = 0;
  const auto write_when = [&](auto has_room) {
    return write_with_room(run.path(), [&, has_room] {
      ++attempts;
      if (!has_room()) throw DiskFull("no room");
    });
  };
  BOOST_TEST(write_when([] { return true; }).empty());
  BOOST_TEST((write_when([&] { return !fs::exists(run / "step-5"); }) == Steps{5}));
  BOOST_TEST((steps() == Steps{0, 10, 15, 1000}));
  attempts = 0;
  BOOST_CHECK_THROW(write_when([] { return false; }), DiskFull);
  BOOST_TEST(attempts == 2);  // step-10 went in vain
  BOOST_TEST((steps() == Steps{0, 15, 1000}));
  // Another rank has begun to remove one, or has just done so.
  complete("step-12.tmp");
  BOOST_TEST(write_when([&] { return !fs::exists(run / "step-12.tmp"); }).empty());
  // It is done with that between this rank's failure and its look.
  complete("step-13.tmp");
  BOOST_TEST(write_when([&] { return fs::remove_all(run / "step-13.tmp") == 0; }).empty());
  complete("step-11");
  attempts = 0;
  BOOST_TEST(write_when([&] {
               fs::remove_all(run / "step-11");
               return attempts == 2;
             }).empty());
}

BOOST_AUTO_TEST_CASE(what_has_made_room_is_told_by_the_one_who_completes) {
  for (const int step : {5, 6}) complete("step-" + std::to_string(step));
  test::FakeStage stage(test::small_model(), 0, 3);
  stage.fill();
  const fs::path dir = unfinished_checkpoint(run.path(), 7);
  write_checkpoint_part(dir, stage, test::small_model(), {});
  note_removed(dir, {3, 4});
  const CheckpointNotes notes = finish_checkpoint(dir, small_info(7), 1);
  BOOST_TEST((notes.removed == Steps{3, 4}));
  BOOST_TEST(notes.set_aside.empty());
  BOOST_TEST(!fs::exists(run / "step-7/step-3.removed"));
  BOOST_CHECK_NO_THROW(CheckpointReader::open(run / "step-7")->verify());
}

BOOST_AUTO_TEST_CASE(a_trial_leaves_nothing_and_names_what_cannot_be) {
  try_saving(run.path());
  BOOST_TEST(fs::is_empty(run.path()));
  const test::FileSizeLimit limit(4);
  expect_error(ErrorKind::internal, {run.path().string(), "File too large"},
               [&] { try_saving(run.path()); });
  BOOST_TEST(fs::is_empty(run.path()));
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE_END()
