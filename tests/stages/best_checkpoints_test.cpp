#include "stages/files/checkpoint/best_checkpoints.h"

#include <boost/test/unit_test.hpp>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>

#include "stages/files/checkpoint/checkpoint.h"
#include "stages/files/checkpoint/room.h"
#include "stages/storage/output_file.h"
#include "tests/support/expect_error.h"
#include "tests/support/temp_dir.h"

// Which checkpoints are kept for the loss that an evaluation at their step had.

BOOST_AUTO_TEST_SUITE(best_checkpoints_test)

using namespace troupe;
using namespace troupe::stages;

namespace {

using Steps = std::vector<std::int64_t>;

struct Fixture {
  test::TempDir run;

  void complete(std::int64_t step, double loss, const std::string& set = "text") {
    const auto dir = run / ("step-" + std::to_string(step));
    std::filesystem::create_directories(dir);
    std::ofstream(dir / "state.json") << "{}";
    BOOST_TEST(note_evaluation(run.path(), {.step = step, .loss = loss, .set = set}));
  }
  Steps after_pruning(int newest, int best, const std::string& set = "text") const {
    prune_checkpoints(run.path(), {.newest = newest, .best = best, .set = set});
    return complete_checkpoints(run.path());
  }
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(of_a_run, Fixture)

BOOST_AUTO_TEST_CASE(the_best_are_kept_beside_the_newest) {
  const double losses[]{3, 1, 2, 1, 4, 5};
  for (std::int64_t i = 0; i < 6; ++i) complete(10 * (i + 1), losses[i]);
  BOOST_TEST((after_pruning(1, 2) == Steps{20, 40, 60}), "of equal ones the earlier is the better");
  BOOST_TEST((best_checkpoints(run.path()) == Steps{20, 40}));
  complete(70, 0.5);
  BOOST_TEST((after_pruning(1, 2) == Steps{20, 70}), "the newest counts among the best");
  BOOST_TEST((best_checkpoints(run.path()) == Steps{70, 20}));
  BOOST_TEST((after_pruning(1, 0) == Steps{70}));
  BOOST_TEST(best_checkpoints(run.path()).empty());
  BOOST_TEST(!std::filesystem::exists(run / "best"));
}

BOOST_AUTO_TEST_CASE(losses_that_cannot_be_compared_do_not_count) {
  complete(1, 0.1, "another text");
  complete(2, std::nan(""));
  complete(3, -INFINITY);
  complete(4, 2);
  complete(5, 1);
  run.write("step-5/evaluation.json", "{\"eval_loss\": \"none\"}");
  complete(6, 3);
  BOOST_TEST((after_pruning(1, 5) == Steps{4, 6}));
  BOOST_TEST((best_checkpoints(run.path()) == Steps{4, 6}));
}

BOOST_AUTO_TEST_CASE(a_step_without_a_checkpoint_has_no_place_for_its_loss) {
  BOOST_TEST(!note_evaluation(run.path(), {.step = 3, .loss = 1, .set = ""}));
  std::filesystem::create_directories(run / "step-3");
  BOOST_TEST(!note_evaluation(run.path(), {.step = 3, .loss = 1, .set = ""}), "it is not complete");
  BOOST_TEST(std::filesystem::is_empty(run / "step-3"));
}

BOOST_AUTO_TEST_CASE(what_someone_else_calls_best_stays) {
  complete(1, 1);
  const auto best = run / kBestFile;
  const std::vector<std::function<void()>> makers{
      [&] { std::filesystem::create_directory(best); },
      [&] { std::filesystem::create_symlink("step-1", best); },
      [&] { std::ofstream(best) << "the one with the low loss\n"; },
      [&] { std::ofstream(best) << std::string(2 << 20, '1'); }};
  for (const auto& make : makers) {
    make();
    note_best(run.path(), 0, "text");
    BOOST_TEST(std::filesystem::exists(std::filesystem::symlink_status(best)));
    test::expect_error(ErrorKind::internal, {best.string(), "move it away"},
                       [&] { note_best(run.path(), 1, "text"); });
    std::filesystem::remove(best);
  }
  note_best(run.path(), 1, "text");
  BOOST_TEST(std::filesystem::exists(best));
  note_best(run.path(), 0, "text");
  BOOST_TEST(!std::filesystem::exists(best));
}

BOOST_AUTO_TEST_CASE(the_best_do_not_make_room_on_a_full_disk) {
  for (std::int64_t step = 1; step <= 4; ++step) complete(step, static_cast<double>(step));
  note_best(run.path(), 1, "text");
  int attempts = 0;
  const auto removed = write_with_room(run.path(), [&] {
    if (++attempts < 3) throw DiskFull("full");
  });
  BOOST_TEST((removed == Steps{2, 3}));
  BOOST_TEST((complete_checkpoints(run.path()) == Steps{1, 4}));
  BOOST_CHECK_THROW(write_with_room(run.path(), [] { throw DiskFull("full"); }), DiskFull);
  BOOST_TEST((complete_checkpoints(run.path()) == Steps{1, 4}));
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE_END()
