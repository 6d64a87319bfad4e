#include "launch/commands/launching/run_summary.h"

#include <boost/test/unit_test.hpp>
#include <sstream>

#include "launch/manifest/resolve/run_spec.h"
#include "tests/launch/manifest_text.h"

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(run_summary_test)

BOOST_AUTO_TEST_CASE(the_first_screen_says_what_lies_where) {
  const auto spec = launch::to_run_spec(checked(kSmallManifest, {"mesh.pp=3", "mesh.dp=2"}));
  const std::string text = launch::summary(spec, launch::place(spec), true);
  for (const char* word :
       {"/runs/small", "584,928 parameters", "1,024 tokens a step", "4 microbatches of 2",
        "pp 3 x dp 2 = 6", "1f1b", "bubble 33.3 %", "2-3"})
    BOOST_TEST(text.find(word) != std::string::npos, "no '" << word << "' in\n" << text);
}

BOOST_AUTO_TEST_CASE(the_first_screen_says_what_is_on_which_host) {
  const auto screen = [](const std::vector<std::string>& overrides) {
    const auto spec = launch::to_run_spec(checked(kSmallManifest, overrides));
    return launch::summary(spec, launch::place(spec), true);
  };
  BOOST_TEST(screen({"mesh.pp=2"}).find("hosts ") == std::string::npos);
  const std::string two = screen({"mesh.pp=4", "cluster.hosts=a:2,b:2"});
  for (const char* word : {"hosts     2; of 3 links between stages 1 is over the network",
                           "  0-1\n", "  2-3\n", "the loss of a host costs a step at most"})
    BOOST_TEST(two.find(word) != std::string::npos, "no '" << word << "' in\n" << two);
  const std::string one = screen({"mesh.pp=2", "cluster.hosts=a:2", "recovery.spare_hosts=0"});
  BOOST_TEST(one.find("may cost the steps since the last checkpoint") != std::string::npos, one);
}

BOOST_AUTO_TEST_CASE(the_first_screen_says_what_each_sharding_takes) {
  const auto screen = [](const std::vector<std::string>& overrides) {
    const auto spec = launch::to_run_spec(checked(kSmallManifest, overrides));
    return launch::summary(spec, launch::place(spec), true);
  };
  BOOST_TEST(screen({}).find("sharding") == std::string::npos);
  const std::string whole = screen({"mesh.dp=4"});
  for (const char* word :
       {"none ", ", optim ", ", optim_grads ", ", optim_grads_params ", "(least: "})
    BOOST_TEST(whole.find(word) != std::string::npos, "no '" << word << "' in\n" << whole);
  BOOST_TEST(whole.find("twins") == std::string::npos);
  const std::vector<std::string> divided{"mesh.dp=2", "data_parallel.sharding=\"optim\""};
  // Both moments of half of 584,928 parameters.
  const std::string twins = screen(divided);
  BOOST_TEST(twins.find("take 2.2 MiB of it") != std::string::npos, twins);
  BOOST_TEST(twins.find("with dp = 2 sharding saves little") != std::string::npos, twins);
  auto without = divided;
  without.push_back("recovery.neighbour_copies=false");
  BOOST_TEST(screen(without).find("twins") == std::string::npos);
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

BOOST_AUTO_TEST_CASE(the_first_screen_says_what_shards_send) {
  const auto text_of = [](const std::vector<std::string>& keys, double bandwidth) {
    const auto spec = launch::to_run_spec(checked(kSmallManifest, keys));
    return launch::summary(spec, launch::place(spec), true, bandwidth);
  };
  // 6 layers x 4 all-reduces of 8 x 2 x 64 tokens of 96 floats, each sent once by one of two
  // shards.
  const double bytes = 6 * 4 * 8 * 2 * 64 * 96 * 4.0;
  const std::string two = text_of({"mesh.tp=2"}, 2);
  BOOST_TEST(two.find("each sends 9.0 MiB for its layers in a step: 4.72 ms at 2 GB/s") !=
                 std::string::npos,
             two);
  BOOST_TEST(bytes / 2e9 == 0.004719, boost::test_tools::tolerance(1e-3));
  // Each of two stages has half of the layers.
  const std::string stages = text_of({"mesh.tp=2", "mesh.pp=2"}, 0);
  BOOST_TEST(stages.find("each sends 4.5 MiB for its layers in a step\n") != std::string::npos,
             stages);
  BOOST_TEST(text_of({}, 2).find("each sends") == std::string::npos);
}

/// Alone F takes 1.5 and B 2.25; a pair of both takes 3.
BOOST_AUTO_TEST_CASE(the_first_screen_says_what_collectives_cost) {
  const auto text_of = [](const std::vector<std::string>& keys) {
    const auto spec = launch::to_run_spec(checked(kSmallManifest, keys));
    return launch::summary(spec, launch::place(spec), true);
  };
  const std::string costs = "schedule.costs=\"F=1,I=1,W=1,cF=0.5,cB=0.25,hop=0\"";
  // 8 x 0.75 of 8 x 3.75.
  BOOST_TEST(text_of({costs}).find("by stage, 20.0 % of a step") != std::string::npos,
             text_of({costs}));
  // A forward and a backward are in no pair: 0.75 of 3.75 + 7 x 3.
  const std::string pairs = text_of({costs, "schedule.kind=combined-1f1b", "schedule.chunks=1"});
  BOOST_TEST(pairs.find("by stage, 3.0 % of a step") != std::string::npos, pairs);
  BOOST_TEST(text_of({}).find("for collectives") == std::string::npos);
}

BOOST_AUTO_TEST_CASE(the_first_screen_fits_100_columns) {
  const auto spec = launch::to_run_spec(checked(kSmallManifest));
  launch::Placement placement = launch::place(spec);
  for (launch::RankPlacement& rank : placement.ranks) {
    rank.parameters = 999'999'999'999;
    const std::int64_t widest = 1023LL << 30;
    rank.memory.allocated = {.stage = {.weights = widest,
                                       .gradients = widest,
                                       .optimizer = widest,
                                       .activations = widest,
                                       .packed = widest},
                             .collectives = widest,
                             .pools = widest};
  }
  std::istringstream lines(launch::summary(spec, placement, true));
  for (std::string line; std::getline(lines, line);) BOOST_TEST(line.size() <= 100u, line);
}

BOOST_AUTO_TEST_CASE(the_corpus_is_told_in_tokens_samples_and_data_epochs) {
  // 12 steps of 16 samples of 64 tokens, from 128 samples.
  const auto spec = launch::to_run_spec(checked(kSmallManifest));
  launch::Corpus corpus;
  corpus.framing = "<s> before each text";
  corpus.sources = {{.name = "", .tokens = 128 * 64 + 1, .samples = 128}};
  BOOST_TEST(launch::corpus_lines(spec, corpus) ==
             "corpus    8,193 tokens, 128 samples; 12 steps are 1.50 data epochs\n"
             "text      <s> before each text\n");
  corpus.sources = {{.name = "a", .share = 0.75, .tokens = 8193, .samples = 128},
                    {.name = "b", .share = 0.25, .tokens = 65, .samples = 1}};
  BOOST_TEST(launch::corpus_lines(spec, corpus) ==
             "corpus    a: 8,193 tokens, 128 samples; 75.0 % of 12 steps are 1.12 data epochs\n"
             "corpus    b: 65 tokens, 1 sample; 25.0 % of 12 steps are 48.00 data epochs\n"
             "text      <s> before each text\n");
  corpus.sources = {{.name = "", .tokens = 8193, .samples = 128, .notes = "one\ntwo\n"}};
  auto dated = spec;
  dated.data.rules.date = "2024-07-26";
  BOOST_TEST(launch::corpus_lines(dated, corpus) ==
             "corpus    8,193 tokens, 128 samples; 12 steps are 1.50 data epochs\n"
             "          one\n          two\n"
             "date      2024-07-26, of the chat template\n"
             "text      <s> before each text\n");
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test
