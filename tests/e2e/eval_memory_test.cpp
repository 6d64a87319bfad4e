#include <boost/test/unit_test.hpp>
#include <sstream>
#include <vector>

#include "tests/support/trained_run.h"

// Tests runs whose workers give the memory of their gradients back during evaluations.

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(eval_memory_test)

BOOST_AUTO_TEST_CASE(gradients_that_are_given_back_for_evaluations_change_nothing) {
  const Workplace place;
  const Keys keys{
      {"run.max_steps", "7"}, {"model.hidden_size", "256"},  // gradients take some huge pages
      {"mesh.dp", "2"},       {"eval.interval", "3"},
      {"eval.steps", "2"},    {"eval.files", "[\"" + (place.dir / "corpus.txt").string() + "\"]"}};
  const auto evaluations = [&](const std::string& name) {
    std::istringstream lines(content_of(place.run(name) + "/metrics.jsonl"));
    std::vector<std::string> found;
    for (std::string line; std::getline(lines, line);)
      if (line.find("eval_loss") != std::string::npos) found.push_back(line);
    return found;
  };
  for (const char* sharding : {"none", "optim", "optim_grads", "optim_grads_params"}) {
    const Keys divided =
        with(keys, {{"data_parallel.sharding", "\"" + std::string(sharding) + "\""}});
    const std::string kept = "kept-" + std::string(sharding),
                      given = "given-" + std::string(sharding);
    const Numbers losses = trained(place, kept, divided);
    BOOST_TEST((trained(place, given, with(divided, {{"eval.keep_gradients", "false"}})) == losses),
               sharding);
    BOOST_TEST(evaluations(kept).size() == 2u);
    BOOST_TEST((evaluations(given) == evaluations(kept)), sharding);
    const std::string log = content_of(place.run(given) + "/logs/rank-0/output");
    BOOST_TEST(log.find("of gradients back until the next step") != std::string::npos, log);
    BOOST_TEST(log.find("gives 0 bytes") == std::string::npos, log);
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test
