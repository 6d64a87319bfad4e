#include "launch/run/run_log.h"

#include <boost/test/unit_test.hpp>
#include <filesystem>

#include "launch/manifest/resolve/run_spec.h"
#include "tests/launch/manifest_text.h"
#include "tests/support/temp_dir.h"

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(run_log_test)

BOOST_AUTO_TEST_CASE(a_step_line_holds_what_people_watch) {
  const actors::StepReport report{
      .step = 3, .loss = 5.54321, .grad_norm = 1.25, .lr = 1e-3, .tokens = 1024, .step_s = 0.5};
  BOOST_TEST(launch::step_line(report, 103, 60) ==
             "step 3/103  loss 5.5432  norm 1.250  lr 1.00e-03  2,048 tokens/s  0:01:00 left\n");
}

BOOST_AUTO_TEST_CASE(reports_become_lines_of_the_run_directory) {
  const TempDir dir;
  std::filesystem::create_directories(dir / "logs");
  auto spec = launch::to_run_spec(checked(kSmallManifest));
  spec.dir = dir.path().string();
  spec.log_interval = 5;
  launch::ConsoleWriter console;
  std::int64_t saved = 0;
  launch::RunLog log(
      spec, {}, console, [](const actors::ClusterShape&, std::int64_t, bool) {},
      [&](std::int64_t step, const std::string&) { saved = step; });
  log.on_step({.step = 1, .loss = 2, .step_s = 1});
  log.on_eval({.step = 1, .loss = 3});
  log.on_checkpoint(1, "/c/step-1");
  log.on_event("rank 1 was slow");
  const std::string metrics = content_of(dir / "metrics.jsonl");
  BOOST_TEST(metrics.starts_with("{\"step\":1,\"loss\":2,"));
  BOOST_TEST(metrics.ends_with("{\"step\":1,\"eval_loss\":3}\n"));
  BOOST_TEST(log.checkpoint() == "/c/step-1");
  BOOST_TEST(saved == 1);
  const std::string notes = content_of(dir / "logs/launcher.log");
  BOOST_TEST(notes.find("/c/step-1") != std::string::npos);
  BOOST_TEST(notes.find("rank 1 was slow") != std::string::npos);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test
