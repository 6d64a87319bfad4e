// A stage that computes activations again computes the same bits as one that keeps them, and keeps
// less.

#include <boost/test/unit_test.hpp>

#include "tests/support/families.h"
#include "tests/support/null_device.h"
#include "tests/support/pipeline.h"
#include "tests/support/recomputes.h"
#include "tests/support/test_device.h"

BOOST_AUTO_TEST_SUITE(stage_recompute_test)

using namespace troupe;
using namespace troupe::test;
using stages::Recompute;
using Mode = Recompute::Mode;

namespace {

constexpr int kMicrobatches = 3;
constexpr std::int64_t kTokens = 14;
constexpr std::int64_t kVocab = 61;

struct Cut {
  std::vector<int> layers, stages;
};
const std::vector<Cut> kCuts = {{{5}, {0}}, {{2, 3}, {0, 1}}, {{0, 3, 2}, {0, 1, 0}}};

stages::ModelConfig llama(tensor::DType dtype, double dropout = 0) {
  return {.hidden_size = 40,
          .intermediate_size = 56,
          .num_hidden_layers = 5,
          .num_attention_heads = 4,
          .num_key_value_heads = 2,
          .head_dim = 10,
          .vocab_size = kVocab,
          .initializer_range = 0.1,
          .hidden_dropout = dropout,
          .attention_dropout = dropout,
          .dtype = dtype};
}

stages::ModelConfig gpt2() {
  stages::ModelConfig model = llama(tensor::DType::f32, 0.1);
  model.kind = stages::ModelKind::gpt2;
  model.num_key_value_heads = 4;
  model.max_position_embeddings = kTokens;
  return model;
}

/// A family with norms after sublayers, of queries and keys, or multipliers.
stages::ModelConfig family(const char* name, tensor::DType dtype = tensor::DType::f32) {
  return as_family(llama(dtype), name);
}

PipelineSpec spec_of(const stages::ModelConfig& model, const Cut& cut, Order order) {
  return {.model = model,
          .layers_of_chunk = cut.layers,
          .stage_of_chunk = cut.stages,
          .microbatches = kMicrobatches,
          .micro = 2,
          .seq_len = kTokens / 2,
          .order = order};
}

/// What two steps compute: losses, and the parameters with gradients and moments.
struct Trained {
  std::vector<double> losses;
  double evaluation = 0;
  std::map<std::string, std::string> state;
  bool operator==(const Trained&) const = default;
};

Tokens tokens_of(const PipelineSpec& spec, std::uint64_t seed) {
  if (spec.documents == stages::Documents::joined) return random_tokens(kTokens, kVocab, seed);
  return random_documents(stages::row_sizes(spec.documents, kTokens, 1), kTokens / 2, kVocab, seed);
}

Trained train(const PipelineSpec& spec) {
  const auto device = test::make_test_device();
  Pipeline pipeline(spec, *device, 11);
  Trained out;
  for (int step = 1; step <= 2; ++step) {
    std::vector<Tokens> batch;
    for (int m = 0; m < kMicrobatches; ++m)
      batch.push_back(tokens_of(spec, static_cast<std::uint64_t>(10 * step + m)));
    const StepResult result = pipeline.step({.lr = 1e-2}, step, batch);
    out.losses.insert(out.losses.end(), result.losses.begin(), result.losses.end());
    out.evaluation += pipeline.evaluate(tokens_of(spec, 7));
  }
  out.state = pipeline.state();
  return out;
}

/// A stage in the middle of the model.
stages::StageSpec middle(int live, int deferred, const Recompute& recompute) {
  return {.model = {.hidden_size = 64,
                    .intermediate_size = 160,
                    .num_hidden_layers = 12,
                    .num_attention_heads = 4,
                    .num_key_value_heads = 2,
                    .head_dim = 16,
                    .vocab_size = 100},
          .chunks = {{.first_layer = 2, .end_layer = 8, .live = live, .deferred = deferred}},
          .recompute = recompute,
          .micro = 2,
          .seq_len = 32,
          .global_tokens = 64};
}

std::int64_t activations(int live, int deferred, const Recompute& recompute) {
  NullDevice device;
  return plan_memory(middle(live, deferred, recompute), device).activations;
}

}  // namespace

BOOST_AUTO_TEST_CASE(recompute_changes_no_bit) {
  std::size_t next = 0;  // each way meets each cut, but not in each order
  for (const auto& model :
       {llama(tensor::DType::f32), llama(tensor::DType::bf16), llama(tensor::DType::f32, 0.1),
        gpt2(), family("qwen3"), family("gemma2", tensor::DType::bf16), family("gemma3_text"),
        family("granite"), family("olmo2"), family("mixtral", tensor::DType::bf16),
        family("qwen3_moe"), with_adapter(llama(tensor::DType::f32, 0.1), 0.1),
        with_adapter(family("gemma2", tensor::DType::bf16))}) {
    const Trained kept = train(spec_of(model, kCuts[0], Order::one_by_one));
    for (const Order order : {Order::one_by_one, Order::late_weights, Order::mixed_backward}) {
      for (const Recompute& recompute : ways_to_recompute()) {
        const Cut& cut = kCuts[next++ % kCuts.size()];
        PipelineSpec spec = spec_of(model, cut, order);
        spec.recompute = recompute;
        BOOST_TEST((train(spec) == kept), recompute << " on " << cut.stages.size()
                                                    << " chunks, order "
                                                    << static_cast<int>(order));
      }
      ++next;
    }
  }
}

BOOST_AUTO_TEST_CASE(documents_are_computed_again_with_the_same_bits) {
  std::size_t next = 0;
  for (const auto& model : {llama(tensor::DType::bf16), gpt2(), family("gemma3_text"),
                            family("olmo2"), family("qwen3_moe")}) {
    PipelineSpec spec = spec_of(model, kCuts[0], Order::one_by_one);
    spec.documents = stages::Documents::packed;
    const Trained kept = train(spec);
    for (const Order order : {Order::late_weights, Order::mixed_backward})
      for (const Recompute& recompute : ways_to_recompute()) {
        spec = spec_of(model, kCuts[next++ % kCuts.size()], order);
        spec.documents = stages::Documents::packed;
        spec.recompute = recompute;
        BOOST_TEST((train(spec) == kept), recompute << ", order " << static_cast<int>(order));
      }
  }
}

BOOST_AUTO_TEST_CASE(a_slot_keeps_what_its_mode_says) {
  // Of a layer, [T, C] each: x, two norms and mid; attention; queries, keys and values; in floats.
  const std::int64_t tokens = 64, width = 64, attention = 64, qkv = 128, ffn = 160, heads = 4;
  const std::int64_t statistics = tokens * 2;
  const std::int64_t core = tokens * (attention + heads);
  const std::int64_t outputs = tokens * (2 * width + ffn);
  const std::int64_t sums = tokens * (width + 2 * ffn);
  const std::int64_t inputs = tokens * qkv + 3 + statistics;
  const std::int64_t x = tokens * width;
  const std::int64_t all = core + outputs + sums + inputs;
  const auto slot = [](const Recompute& recompute) {
    return (activations(3, 0, recompute) - activations(2, 0, recompute)) / 4;
  };
  // The first of the six layers reads the received buffer.
  const auto is_about = [](std::int64_t got, std::int64_t expected) {
    BOOST_TEST(got >= expected);
    BOOST_TEST(got <= expected + 6 * 12 * 64);  // boundaries of 256 bytes
  };
  is_about(slot({}), 6 * all + 5 * x);
  is_about(slot({.mode = Mode::selective}), 6 * (all - core) + 5 * x);
  is_about(slot({.mode = Mode::output}), 6 * (all - outputs) + 5 * x);
  is_about(slot({.mode = Mode::full}), 5 * x);
  is_about(slot({.mode = Mode::full, .num_layers = 4}), x);
  is_about(slot({.mode = Mode::full, .num_layers = 100}), 0);
  is_about(slot({.mode = Mode::full, .method = Recompute::Method::block, .num_layers = 2}),
           4 * all + 5 * x);
  is_about(slot({.mode = Mode::full, .kept_microbatches = 3}), 6 * all + 5 * x);
  is_about(slot({.mode = Mode::full, .kept_microbatches = 1}), 5 * x);
}

BOOST_AUTO_TEST_CASE(recompute_takes_less_memory) {
  const std::int64_t none = activations(4, 0, {});
  for (const Recompute& recompute : ways_to_recompute())
    BOOST_TEST(activations(4, 0, recompute) < none, recompute);
  BOOST_TEST(activations(4, 0, {.mode = Mode::full, .kept_microbatches = 4}) == none);
  // Weight gradients that come later read what was computed again, but not all of it.
  for (const Recompute& recompute : ways_to_recompute())
    BOOST_TEST(activations(8, 2, recompute) < activations(8, 2, {}), recompute);
}

BOOST_AUTO_TEST_CASE(shards_keep_parts_of_inputs) {
  const auto slot = [](bool distributes) {
    NullDevice device;
    const auto bytes = [&](int live) {
      stages::StageSpec spec =
          middle(live, 0, {.mode = Mode::full, .distribute_saved_activations = distributes});
      spec.sharding.size = 2;
      return plan_memory(spec, device).activations;
    };
    return bytes(3) - bytes(2);
  };
  BOOST_TEST(slot(false) == 6 * 64 * 64 * 4);
  BOOST_TEST(slot(true) == 6 * 64 * 64 * 4 / 2);
}

BOOST_AUTO_TEST_SUITE_END()
