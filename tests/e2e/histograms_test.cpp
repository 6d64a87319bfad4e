#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <map>
#include <utility>
#include <vector>

#include "tests/support/event_files.h"
#include "tests/support/run_tensors.h"
#include "tests/support/trained_run.h"

// Histograms of weights and gradients (monitor.histograms) in the event files of launched runs.

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(histograms_test)

namespace {

struct Spread {
  double min = 0, max = 0, count = 0, sum = 0, squares = 0;
  double in_buckets = 0;
};

/// By tag and step. Fails the test if one is there twice.
std::map<std::pair<std::string, int>, Spread> histograms_of(const std::string& run) {
  std::map<std::pair<std::string, int>, Spread> found;
  for (const auto& entry : std::filesystem::directory_iterator(run + "/tensorboard"))
    for (const std::string& record :
         event_records(content_of(entry.path()), [](std::string_view, std::uint64_t) {})) {
      const Fields event = fields_of(record);
      if (!event.texts.contains(5)) continue;
      const Fields value = fields_of(fields_of(event.texts.at(5)).texts.at(1));
      if (!value.texts.contains(5)) continue;
      const Fields histogram = fields_of(value.texts.at(5));
      const auto number = [&](int field) {
        return std::bit_cast<double>(histogram.numbers.at(field));
      };
      Spread spread{number(1), number(2), number(3), number(4), number(5)};
      for (const double count : doubles_of(histogram.texts.at(7))) spread.in_buckets += count;
      const auto step = static_cast<int>(event.numbers.at(2));
      BOOST_TEST(found.emplace(std::pair(value.texts.at(1), step), spread).second,
                 value.texts.at(1) << " twice in step " << step);
    }
  return found;
}

Spread spread_of(const std::string& bytes) {
  Spread spread{.min = INFINITY, .max = -INFINITY};
  for (std::size_t at = 0; at < bytes.size(); at += sizeof(float)) {
    float x = 0;
    std::memcpy(&x, bytes.data() + at, sizeof x);
    spread.min = std::min(spread.min, double{x});
    spread.max = std::max(spread.max, double{x});
    spread.sum += x;
    ++spread.count;
  }
  return spread;
}

const Keys kKeys{{"monitor.tensorboard", "true"},
                 {"monitor.histograms", "2"},
                 {"checkpoint.interval", "1"},
                 {"checkpoint.keep", "9"},
                 {"run.max_steps", "5"}};

}  // namespace

BOOST_AUTO_TEST_CASE(every_shape_shows_each_tensor_once) {
  const Workplace place;
  const std::vector<Keys> shapes{
      {},
      {{"mesh.pp", "2"}, {"mesh.tp", "2"}, {"model.vocab_size", "257"}},  // with rows of padding
      {{"mesh.pp", "2"}, {"model.tie_word_embeddings", "true"}},
      {{"mesh.dp", "2"}, {"data_parallel.sharding", "\"optim_grads_params\""}},
      {{"mesh.pp", "2"}, {"schedule.kind", "\"dualpipe\""}},
      {{"mesh.dp", "4"},
       {"data_parallel.sharding", "\"optim\""},
       {"data_parallel.num_optimizer_instances", "2"}}};
  for (const Keys& shape : shapes) {
    const std::string name = "shape" + std::to_string(&shape - shapes.data());
    const Numbers numbers = trained(place, name, with(kKeys, shape));
    const auto found = histograms_of(place.run(name));
    for (const int step : {2, 4}) {
      // The weights of a step are those that the step before it has left.
      std::size_t tensors = 0;
      double squares = 0;
      for (const auto& [tensor, bytes] : tensors_in(place.checkpoint(name, step - 1))) {
        if (tensor.find(".exp_avg") != tensor.npos) continue;
        ++tensors;
        const Spread expected = spread_of(bytes), weights = found.at({"weights/" + tensor, step});
        BOOST_TEST(weights.count == expected.count, name << ": " << tensor);
        BOOST_TEST(weights.in_buckets == expected.count);
        BOOST_TEST(weights.min == expected.min);
        BOOST_TEST(weights.max == expected.max);
        BOOST_TEST(std::abs(weights.sum - expected.sum) < 1e-9 * expected.count);
        const Spread gradients = found.at({"gradients/" + tensor, step});
        BOOST_TEST(gradients.count == expected.count);
        squares += gradients.squares;
      }
      BOOST_TEST(found.size() == 4 * tensors);  // two steps of weights and gradients
      BOOST_TEST(std::abs(std::sqrt(squares) / numbers.at(step).grad_norm - 1) < 1e-9);
    }
  }
}

BOOST_AUTO_TEST_CASE(histograms_need_tensorboard) {
  const Workplace place;
  const Finished refused =
      troupe({"plan", place.manifest("none", with(kKeys, {{"monitor.tensorboard", "false"}}))});
  BOOST_TEST(refused.exit_code == 78);
  BOOST_TEST(refused.err.find("monitor.tensorboard = true too") != std::string::npos, refused.err);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test
