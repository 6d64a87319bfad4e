#include "launch/commands/run_summary.h"

#include <boost/test/unit_test.hpp>
#include <sstream>

#include "launch/manifest/run_spec.h"
#include "tests/launch/manifest_text.h"

namespace troupe::test {

BOOST_AUTO_TEST_CASE(the_first_screen_says_what_lies_where) {
  const auto spec = launch::to_run_spec(checked(kSmallManifest, {"mesh.pp=3", "mesh.dp=2"}));
  const std::string text = launch::summary(spec, launch::place(spec), true);
  for (const char* word :
       {"/runs/small", "584,928 parameters", "1,024 tokens a step", "4 microbatches of 2",
        "pp 3 x dp 2 = 6", "1f1b", "bubble 33.3 %", "2-3"})
    BOOST_TEST(text.find(word) != std::string::npos, "no '" << word << "' in\n" << text);
}

BOOST_AUTO_TEST_CASE(the_first_screen_says_what_is_computed_again) {
  const auto screen = [](const std::vector<std::string>& overrides) {
    const auto spec = launch::to_run_spec(checked(kSmallManifest, overrides));
    return launch::summary(spec, launch::place(spec), true);
  };
  BOOST_TEST(screen({}).find("recompute") == std::string::npos);
  const std::string text =
      screen({"recompute.mode=full", "recompute.num_layers=2", "recompute.kept_microbatches=1"});
  for (const char* word : {"recompute full (groups of 2 layers), 1 microbatch kept: ",
                           " less of activations", "computed again in I"})
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
  std::istringstream lines(launch::summary(spec, placement, true));
  for (std::string line; std::getline(lines, line);) BOOST_TEST(line.size() <= 100u, line);
}

BOOST_AUTO_TEST_CASE(the_corpus_is_told_in_tokens_samples_and_data_epochs) {
  // 12 steps of 16 samples of 64 tokens, from 128 samples.
  const auto spec = launch::to_run_spec(checked(kSmallManifest));
  BOOST_TEST(launch::corpus_line(spec, 128 * 64 + 1) ==
             "corpus    8,193 tokens, 128 samples; 12 steps are 1.50 data epochs\n");
}

}  // namespace troupe::test
