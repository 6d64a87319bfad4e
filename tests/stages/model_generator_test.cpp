#include <boost/test/unit_test.hpp>
#include <cmath>
#include <limits>

#include "stages/generator.h"
#include "tests/support/expect_error.h"
#include "tests/support/pipeline.h"
#include "tests/support/reference_models.h"
#include "tests/support/test_device.h"

using namespace troupe;
using namespace troupe::test;

namespace {

const stages::ModelConfig kModel = {.hidden_size = 16,
                                    .intermediate_size = 24,
                                    .num_hidden_layers = 2,
                                    .num_attention_heads = 2,
                                    .num_key_value_heads = 1,
                                    .head_dim = 8,
                                    .vocab_size = 23,
                                    .initializer_range = 0.2};
constexpr std::int64_t kContext = 160;

/// The reference's logits after the last of `ids`, which form one sample.
std::vector<double> reference_logits(stages::Stage& stage, std::span<const std::int32_t> ids) {
  const auto model =
      reference::make_reference(kModel, static_cast<std::int64_t>(ids.size()), stage);
  const reference::Values logits = model->logits({ids.begin(), ids.end()});
  return {logits.end() - kModel.vocab_size, logits.end()};
}

}  // namespace

BOOST_AUTO_TEST_CASE(predicts_as_the_reference_does_for_every_window) {
  const auto device = test::make_test_device();
  stages::Generator generator(kModel, *device, kContext);
  initialize(generator.stage(), kModel, 1, 1);
  const std::vector<std::int32_t> ids = random_tokens(300, kModel.vocab_size, 1).ids;
  // Lengths around the windows of 64, 128 and 160 tokens, and beyond the context; then short ones
  // again.
  for (const std::size_t length : {1u, 5u, 63u, 64u, 65u, 128u, 129u, 160u, 161u, 300u, 7u, 100u}) {
    const std::span<const std::int32_t> text(ids.data(), length);
    const std::size_t seen = std::min<std::size_t>(length, kContext);
    const auto expected = reference_logits(generator.stage(), text.last(seen));
    const auto logits = generator.next_logits(text);
    BOOST_REQUIRE(logits.size() == expected.size());
    for (std::size_t v = 0; v < expected.size(); ++v) {
      BOOST_TEST(std::abs(logits[v] - expected[v]) < 1e-4, length << " tokens, logit " << v);
    }
  }
}

BOOST_AUTO_TEST_CASE(a_context_shorter_than_a_window_works) {
  const auto device = test::make_test_device();
  stages::Generator generator(kModel, *device, 10);
  initialize(generator.stage(), kModel, 1, 1);
  const std::vector<std::int32_t> ids = random_tokens(30, kModel.vocab_size, 1).ids;
  const auto expected = reference_logits(generator.stage(), std::span(ids).last(10));
  BOOST_TEST(std::abs(generator.next_logits(ids)[3] - expected[3]) < 1e-4);
}

BOOST_AUTO_TEST_CASE(refuses_tokens_the_model_does_not_know) {
  const auto device = test::make_test_device();
  stages::Generator generator(kModel, *device, 10);
  const std::vector<std::int32_t> ids = {1, 23};
  expect_error(ErrorKind::data, {"token 1", "id 23", "0 to 22"},
               [&] { generator.next_logits(ids); });
}

BOOST_AUTO_TEST_CASE(temperature_zero_takes_the_first_of_the_likeliest) {
  const std::vector<float> logits = {-1.0f, 3.0f, 2.0f, 3.0f};
  for (std::uint64_t seed = 0; seed < 5; ++seed)
    BOOST_TEST(stages::sample(logits, 0, seed, 0) == 1);
}

BOOST_AUTO_TEST_CASE(samples_are_a_pure_function_of_seed_and_position) {
  const std::vector<float> logits(50, 0.0f);
  std::vector<std::int32_t> first, again, other;
  for (std::uint64_t position = 0; position < 20; ++position) {
    first.push_back(stages::sample(logits, 1, 7, position));
    again.push_back(stages::sample(logits, 1, 7, position));
    other.push_back(stages::sample(logits, 1, 8, position));
  }
  BOOST_TEST(first == again, boost::test_tools::per_element());
  BOOST_TEST((first != other));
}

BOOST_AUTO_TEST_CASE(samples_follow_the_softmax) {
  const std::vector<float> logits = {0.0f, std::log(2.0f), -std::numeric_limits<float>::infinity(),
                                     std::log(5.0f)};
  constexpr int kDraws = 20000;
  for (const double temperature : {0.5, 1.0, 2.0}) {
    std::vector<double> share(logits.size());
    for (int i = 0; i < kDraws; ++i) {
      const auto token = stages::sample(logits, temperature, 3, static_cast<std::uint64_t>(i));
      share[static_cast<std::size_t>(token)] += 1.0 / kDraws;
    }
    double total = 0;
    for (const float logit : logits) total += std::exp(logit / temperature);
    for (std::size_t v = 0; v < logits.size(); ++v) {
      const double p = std::exp(logits[v] / temperature) / total;
      const double six_sigma = 6 * std::sqrt(p * (1 - p) / kDraws);
      BOOST_TEST(std::abs(share[v] - p) <= six_sigma, temperature << ": " << v << " " << share[v]);
    }
  }
}
