// A head of one value per token, on one stage, several stages and several shards, against the
// double-precision reference.

#include <boost/test/unit_test.hpp>
#include <cmath>
#include <thread>

#include "tests/support/pipeline.h"
#include "tests/support/reference_models.h"
#include "tests/support/test_device.h"
#include "tests/tensor/thread_group.h"

BOOST_AUTO_TEST_SUITE(value_head_test)

using namespace troupe;
using namespace troupe::test;
using tensor::Meeting;
using tensor::Moves;
using tensor::ThreadGroup;

namespace {

constexpr std::int64_t kMicro = 2, kSeqLen = 12, kTokens = kMicro * kSeqLen;

stages::ModelConfig model_of(bool has_bias) {
  return {.hidden_size = 48,
          .intermediate_size = 72,
          .num_hidden_layers = 3,
          .num_attention_heads = 8,
          .num_key_value_heads = 2,
          .head_dim = 4,
          .vocab_size = 61,
          .value_head = true,
          .value_head_bias = has_bias,
          .initializer_range = 0.1};
}

/// A stage of all layers from `first` to `end` of the shard, with weights that depend on their
/// names alone.
std::unique_ptr<stages::Stage> stage_of(const stages::ModelConfig& model, int first, int end,
                                        const stages::Sharding& sharding, tensor::Device& device) {
  auto stage = stages::make_transformer_stage({.model = model,
                                               .chunks = {{.first_layer = first,
                                                           .end_layer = end,
                                                           .embedding = first == 0,
                                                           .head = end == model.num_hidden_layers}},
                                               .sharding = sharding,
                                               .micro = kMicro,
                                               .seq_len = kSeqLen,
                                               .training = false},
                                              device);
  initialize(*stage, model, 5, 1);
  for (const stages::Parameter& p : stage->parameters())
    if (p.name == "score.bias") test::opened(p.weight).as<float>()[0] = 0.375f;
  stage->weights_changed();
  return stage;
}

/// The values of all tokens, of one shard.
std::vector<float> evaluate(stages::Stage& stage, const tensor::Tensor& input,
                            const std::vector<std::int32_t>& ids) {
  std::vector<float> values(kTokens);
  stage.evaluate(0, input, {values.data(), tensor::DType::f32, {kTokens, 1}}, ids, {});
  return values;
}

std::vector<float> whole(const stages::ModelConfig& model, const std::vector<std::int32_t>& ids) {
  const auto device = test::make_test_device();
  return evaluate(*stage_of(model, 0, 3, {}, *device), {}, ids);
}

double distance(const std::vector<float>& a, const std::vector<double>& b) {
  double error = 0, size = 0;
  for (std::size_t i = 0; i < b.size(); ++i) {
    error += std::pow(a[i] - b[i], 2);
    size += b[i] * b[i];
  }
  return std::sqrt(error / size);
}

}  // namespace

BOOST_AUTO_TEST_CASE(it_is_the_reference_s) {
  const Tokens tokens = random_tokens(kTokens, 61, 3);
  for (const bool has_bias : {false, true}) {
    const stages::ModelConfig model = model_of(has_bias);
    BOOST_REQUIRE_EQUAL(check_model(model).sentence, "");
    const auto device = test::make_test_device();
    const auto stage = stage_of(model, 0, 3, {}, *device);
    const auto expected = reference::make_reference(model, kSeqLen, *stage)->logits(tokens.ids);
    BOOST_REQUIRE_EQUAL(expected.size(), std::size_t{kTokens});
    BOOST_TEST(distance(evaluate(*stage, {}, tokens.ids), expected) < 1e-5);
  }
}

BOOST_AUTO_TEST_CASE(a_cut_changes_no_bit) {
  const Tokens tokens = random_tokens(kTokens, 61, 3);
  const stages::ModelConfig model = model_of(true);
  const auto device = test::make_test_device();
  const auto first = stage_of(model, 0, 2, {}, *device), last = stage_of(model, 2, 3, {}, *device);
  const tensor::Buffer edge =
      device->allocate(static_cast<std::size_t>(kTokens * model.hidden_size) * sizeof(float),
                       tensor::MemoryKind::device);
  const tensor::Tensor x = edge.view(tensor::DType::f32, first->edge_shape());
  first->evaluate(0, {}, x, tokens.ids, {});
  BOOST_TEST(evaluate(*last, x, {}) == whole(model, tokens.ids), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(every_shard_has_all_values) {
  const Tokens tokens = random_tokens(kTokens, 61, 3);
  const stages::ModelConfig model = model_of(true);
  const std::vector<float> one = whole(model, tokens.ids);
  const std::vector<double> expected(one.begin(), one.end());
  for (const int shards : {2, 4})
    for (const bool sequence_parallel : {false, true}) {
      const auto meeting = std::make_shared<Meeting>(shards);
      std::vector<std::vector<float>> values(static_cast<std::size_t>(shards));
      {
        std::vector<std::jthread> threads;
        for (int i = 0; i < shards; ++i)
          threads.emplace_back([&, i] {
            ThreadGroup group(meeting, i, Moves::at_wait);
            const auto device = test::make_test_device();
            const auto stage = stage_of(
                model, 0, 3, {.size = shards, .shard = i, .sequence_parallel = sequence_parallel},
                *device);
            stage->join({.forward = &group, .backward = &group});
            values[static_cast<std::size_t>(i)] = evaluate(*stage, {}, tokens.ids);
          });
      }
      for (const std::vector<float>& of_shard : values) {
        BOOST_TEST(of_shard == values.front(), boost::test_tools::per_element());
        BOOST_TEST(distance(of_shard, expected) < 2e-6);
      }
    }
}

BOOST_AUTO_TEST_CASE(it_is_no_part_of_other_models) {
  stages::ModelConfig tied = model_of(true), gpt2 = model_of(true);
  tied.tie_word_embeddings = true;
  BOOST_TEST(check_model(tied).sentence.find("tie_word_embeddings") != std::string::npos);
  gpt2.kind = stages::ModelKind::gpt2;
  gpt2.num_key_value_heads = gpt2.num_attention_heads;
  gpt2.head_dim = 6;
  BOOST_TEST(check_model(gpt2).sentence.find("value_head") != std::string::npos);
}

BOOST_AUTO_TEST_SUITE_END()
