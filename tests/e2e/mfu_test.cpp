#include <boost/test/unit_test.hpp>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/support/trained_run.h"

// The utilization that a run tells is the one that a plan predicts, for the same tokens per second.

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(mfu_test)

namespace {

using nlohmann::json;

/// The FLOP of training on a token, by the sizes that Workplace's manifests have: of the vocabulary
/// the head alone multiplies, whether it has a matrix of its own or the embedding's.
double flop_per_token(int feed_forward_products, int kv_heads) {
  const double hidden = 32, feed_forward = 48, layers = 6, heads = 4, width = 8, vocabulary = 256,
               sequence = 16;
  const double matrices =
      2 * hidden * width * (heads + kv_heads) + feed_forward_products * hidden * feed_forward;
  return 3 *
         (2 * matrices * layers + 4 * sequence * heads * width * layers + 2 * hidden * vocabulary);
}

}  // namespace

BOOST_AUTO_TEST_CASE(the_mfu_of_a_run_is_that_of_a_plan) {
  const Workplace place;
  const std::string machine = place.dir.write(
      "two.machine.toml", "[machine]\nbase = \"l40s\"\n[device]\nfloat32_tflops = 2.0\n");
  struct Model {
    const char* name;
    Keys keys;
    double flop_per_token;
  };
  for (const auto& [name, keys, flop] :
       {Model{"untied", {}, flop_per_token(3, 2)},
        Model{"tied", {{"model.tie_word_embeddings", "true"}}, flop_per_token(3, 2)},
        Model{"gpt2",
              {{"model.kind", "\"gpt2\""}, {"model.num_key_value_heads", ""}},
              flop_per_token(2, 4)}}) {
    trained(place, name, with({{"mesh.pp", "2"}, {"monitor.peak_tflops", "2.0"}}, keys));
    std::ifstream lines(place.run(name) + "/metrics.jsonl");
    int steps = 0;
    for (std::string line; std::getline(lines, line);) {
      const json step = json::parse(line);
      if (!step.contains("mfu")) continue;
      ++steps;
      BOOST_TEST(
          step.at("mfu").get<double>() == flop * step.at("tokens_per_s").get<double>() / (2 * 2e12),
          boost::test_tools::tolerance(1e-6));
    }
    BOOST_TEST(steps == 6, name);
    const Finished plan =
        troupe({"plan", place.run(name) + "/manifest.toml", "--machine", machine, "--json"});
    BOOST_REQUIRE_MESSAGE(plan.exit_code == 0, plan.err);
    const json predicted = json::parse(plan.out).at("predicted");
    BOOST_TEST(predicted.at("mfu").get<double>() ==
                   flop * predicted.at("tokens_per_s").get<double>() / (2 * 2e12),
               boost::test_tools::tolerance(1e-6));
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test
