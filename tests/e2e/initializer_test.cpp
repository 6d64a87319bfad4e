#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstring>

#include "tests/support/small_manifest.h"
#include "tests/support/troupe_program.h"

// Tests the initial weights of launched runs, as their first checkpoint has them.

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(initializer_test)

namespace {

/// Runs one step and returns a weight of the checkpoint before it, by its name.
std::vector<float> initial_weight(const Workplace& place, const std::string& name, Keys keys,
                                  const std::string& weight) {
  keys.insert({{"run.max_steps", "1"}, {"checkpoint.initial", "true"}});
  const Finished done = troupe({"launch", place.manifest(name, keys)});
  BOOST_REQUIRE_MESSAGE(done.exit_code == 0,
                        name << " ended with " << done.exit_code << ": " << done.err);
  const std::string file =
      content_of(place.checkpoint(name, 0) + "/model-00001-of-00001.safetensors");
  std::uint64_t header = 0;
  BOOST_REQUIRE(file.size() > sizeof header);
  std::memcpy(&header, file.data(), sizeof header);
  const auto tensors = nlohmann::json::parse(file.substr(sizeof header, header));
  const auto offsets = tensors.at(weight).at("data_offsets");
  const auto begin = offsets[0].get<std::size_t>(), end = offsets[1].get<std::size_t>();
  std::vector<float> values((end - begin) / sizeof(float));
  std::memcpy(values.data(), file.data() + sizeof header + header + begin, end - begin);
  return values;
}

double deviation(const std::vector<float>& values) {
  double squares = 0;
  for (const float value : values) squares += static_cast<double>(value) * value;
  return std::sqrt(squares / static_cast<double>(values.size()));
}

}  // namespace

BOOST_AUTO_TEST_CASE(shards_begin_with_the_weights_of_one_process) {
  const Workplace place;
  const std::string output = "model.layers.3.mlp.down_proj.weight";  // [32, 48]
  std::map<std::string, std::vector<float>> by_method;
  for (const std::string method : {"normal", "scaled_normal", "xavier_uniform"}) {
    const Keys keys{{"model.initializer", '"' + method + '"'}};
    Keys shards = keys;
    shards["mesh.tp"] = "4";
    by_method[method] = initial_weight(place, method, keys, output);
    BOOST_TEST((initial_weight(place, method + "4", shards, output) == by_method[method]), method);
  }
  // 1536 values have the deviation of their distribution within some percent.
  const auto close = boost::test_tools::tolerance(0.1);
  BOOST_TEST(deviation(by_method["normal"]) == 0.02, close);
  BOOST_TEST(deviation(by_method["scaled_normal"]) == 0.02 / std::sqrt(12.0), close);
  BOOST_TEST(deviation(by_method["xavier_uniform"]) == std::sqrt(6.0 / 80 / 3), close);
}

BOOST_AUTO_TEST_CASE(an_initializer_that_nobody_knows_is_refused) {
  const Workplace place;
  const Finished done =
      troupe({"plan", place.manifest("bad", {{"model.initializer", "\"xavier_normal\""}})});
  BOOST_TEST(done.exit_code == 78);
  BOOST_TEST(done.err.find("xavier_uniform") != std::string::npos, done.err);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test
