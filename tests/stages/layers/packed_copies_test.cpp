// The optimizer writes the packed form of weights where that is a plain copy of them.

#include "stages/decoder/layers/packed_copies.h"

#include <boost/test/unit_test.hpp>
#include <numeric>

#include "tests/support/pipeline.h"
#include "tests/support/plain_linear_device.h"
#include "tests/support/test_device.h"

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(packed_copies_test)

namespace {

using tensor::DType;
using tensor::Tensor;

stages::ModelConfig model_of(DType dtype, bool tied) {
  return {.hidden_size = 12,
          .intermediate_size = 20,
          .num_hidden_layers = 2,
          .num_attention_heads = 2,
          .num_key_value_heads = 1,
          .head_dim = 6,
          .vocab_size = 17,
          .tie_word_embeddings = tied,
          .initializer_range = 0.2,
          .dtype = dtype};
}

/// The losses of some steps and of an evaluation after each.
std::vector<double> train(const stages::ModelConfig& model, tensor::Device& device) {
  Pipeline pipeline({.model = model, .layers_of_chunk = {1, 1}, .stage_of_chunk = {0, 0}}, device,
                    5);
  const stages::OptimizerConfig config = {.lr = 0.02};
  std::vector<double> numbers;
  for (int step = 1; step <= 4; ++step) {
    const auto batch = {random_tokens(8, 17, static_cast<std::uint64_t>(step))};
    const StepResult result = pipeline.step(config, step, batch);
    numbers.insert(numbers.end(), result.losses.begin(), result.losses.end());
    numbers.push_back(pipeline.evaluate(random_tokens(8, 17, 99)));
  }
  return numbers;
}

}  // namespace

BOOST_AUTO_TEST_CASE(weights_that_the_optimizer_packs_give_the_bits_of_weights_that_are_packed) {
  for (const DType dtype : {DType::f32, DType::bf16})
    for (const bool tied : {false, true}) {
      const auto model = model_of(dtype, tied);
      const auto device = make_test_device();
      PlainLinearDevice plain;
      BOOST_TEST((train(model, plain) == train(model, *device)), name_of(dtype)
                                                                     << ", tied " << tied);
      BOOST_TEST(plain.packs() == 2 * 4 + 1, "each matrix once, before the first step");
    }
}

BOOST_AUTO_TEST_CASE(a_parameter_has_its_rows_of_the_matrix_it_is_joined_into) {
  std::vector<float> weights(40);
  std::vector<float> copy(30);
  const Tensor q{weights.data(), DType::f32, {2, 5}}, k{weights.data() + 10, DType::f32, {4, 5}};
  const Tensor norm{weights.data() + 30, DType::f32, {5}};
  const std::vector<stages::Parameter> parameters{
      {.name = "q", .weight = q}, {.name = "k", .weight = k}, {.name = "norm", .weight = norm}};
  const stages::PackedCopy joined{.master = {weights.data(), DType::f32, {6, 5}},
                                  .copy = {copy.data(), DType::bf16, {6, 5}}};
  const auto copies = stages::copies_of(parameters, std::vector{joined});
  BOOST_REQUIRE(copies.size() == 3u);
  BOOST_TEST(copies[0].data == copy.data());
  BOOST_TEST(copies[1].as<tensor::BFloat16>() - copies[0].as<tensor::BFloat16>() == 10);
  BOOST_TEST((copies[1].shape == k.shape && copies[1].dtype == DType::bf16));
  BOOST_TEST(!copies[2]);
  const stages::PackedCopy packed{.master = norm, .copy = {}};
  BOOST_TEST(stages::copies_of(parameters, std::vector{joined, packed}).empty());
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test
