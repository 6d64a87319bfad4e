#include "launch/host/console.h"

#include <fcntl.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <cstdio>
#include <sstream>

#include "launch/manifest/run_spec.h"
#include "launch/run/run_log.h"
#include "tests/launch/manifest_text.h"
#include "tests/support/expect_error.h"
#include "tests/support/temp_dir.h"

namespace troupe::test {

BOOST_AUTO_TEST_CASE(a_step_line_holds_what_people_watch) {
  const actors::StepReport report{
      .step = 3, .loss = 5.54321, .grad_norm = 1.25, .lr = 1e-3, .tokens = 1024, .step_s = 0.5};
  BOOST_TEST(launch::step_line(report, 103, 60) ==
             "step 3/103  loss 5.5432  norm 1.250  lr 1.00e-03  2,048 tokens/s  0:01:00 left\n");
}

BOOST_AUTO_TEST_CASE(durations_are_written_in_days_hours_minutes_seconds) {
  BOOST_TEST(launch::duration_text(0) == "0:00:00");
  BOOST_TEST(launch::duration_text(3599.9) == "0:59:59");
  BOOST_TEST(launch::duration_text(90061) == "1d 1:01:01");
  BOOST_TEST(launch::duration_text(-1) == "0:00:00");
}

BOOST_AUTO_TEST_CASE(the_first_screen_says_what_lies_where) {
  const auto spec = launch::to_run_spec(checked(kSmallManifest, {"mesh.pp=3", "mesh.dp=2"}));
  const std::string text = launch::summary(spec, launch::place(spec));
  for (const char* word :
       {"/runs/small", "584,928 parameters", "1,024 tokens a step", "4 microbatches of 2",
        "pp 3 x dp 2 = 6", "1f1b", "bubble 33.3 %", "2-3"})
    BOOST_TEST(text.find(word) != std::string::npos, "no '" << word << "' in\n" << text);
}

BOOST_AUTO_TEST_CASE(the_first_screen_fits_100_columns) {
  const auto spec = launch::to_run_spec(checked(kSmallManifest));
  launch::Placement placement = launch::place(spec);
  for (launch::RankPlacement& rank : placement.ranks) {
    rank.parameters = 999'999'999'999;
    const std::int64_t widest = 1023LL << 30;
    rank.memory = {.weights = widest,
                   .gradients = widest,
                   .optimizer = widest,
                   .activations = widest,
                   .packed = widest};
    rank.pools = widest;
  }
  std::istringstream lines(launch::summary(spec, placement));
  for (std::string line; std::getline(lines, line);) BOOST_TEST(line.size() <= 100u, line);
}

BOOST_AUTO_TEST_CASE(the_corpus_is_told_in_tokens_samples_and_data_epochs) {
  // 12 steps of 16 samples of 64 tokens, from 128 samples.
  const auto spec = launch::to_run_spec(checked(kSmallManifest));
  BOOST_TEST(launch::corpus_line(spec, 128 * 64 + 1) ==
             "corpus    8,193 tokens, 128 samples; 12 steps are 1.50 data epochs\n");
}

BOOST_AUTO_TEST_CASE(reports_become_lines_of_the_run_directory) {
  const TempDir dir;
  std::filesystem::create_directories(dir / "logs");
  auto spec = launch::to_run_spec(checked(kSmallManifest));
  spec.dir = dir.path().string();
  spec.log_interval = 5;
  launch::RunLog log(spec, [](const actors::Shape&) {});
  log.on_step({.step = 1, .loss = 2, .step_s = 1});
  log.on_eval({.step = 1, .loss = 3});
  log.on_checkpoint(1, "/c/step-1");
  log.on_event("rank 1 was slow");
  const std::string metrics = content_of(dir / "metrics.jsonl");
  BOOST_TEST(metrics.starts_with("{\"step\":1,\"loss\":2,"));
  BOOST_TEST(metrics.ends_with("{\"step\":1,\"eval_loss\":3}\n"));
  BOOST_TEST(log.checkpoint() == "/c/step-1");
  const std::string notes = content_of(dir / "logs/launcher.log");
  BOOST_TEST(notes.find("/c/step-1") != std::string::npos);
  BOOST_TEST(notes.find("rank 1 was slow") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(what_cannot_be_printed_is_an_error_and_what_cannot_be_shown_is_remembered) {
  std::fflush(stdout);
  const int before = ::dup(STDOUT_FILENO);
  const int full = ::open("/dev/full", O_WRONLY);
  ::dup2(full, STDOUT_FILENO);
  launch::show("a run goes on\n");
  BOOST_TEST(launch::console_failed());
  std::clearerr(stdout);
  expect_error(ErrorKind::data, {"cannot write the output", "No space left on device"},
               [] { launch::print("a line\n"); });
  ::dup2(before, STDOUT_FILENO);
  BOOST_TEST(launch::console_failed());
  std::clearerr(stdout);
  ::close(full);
  ::close(before);
}

}  // namespace troupe::test
