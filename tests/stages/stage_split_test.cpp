// Whatever the cut into stages and chunks and whatever the order of actions, a step computes the
// same bits.

#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>

#include "tests/support/families.h"
#include "tests/support/pipeline.h"
#include "tests/support/test_device.h"

BOOST_AUTO_TEST_SUITE(stage_split_test)

using namespace troupe;
using namespace troupe::test;

namespace {

constexpr int kMicrobatches = 4;
constexpr int kSteps = 3;
constexpr std::int64_t kSeqLen = 9;

struct Kind {
  const char* name;
  tensor::DType dtype;
  bool tied;
  double dropout = 0;
  bool biases = false;
  bool packed = false;
  std::string_view family = {};  ///< as_family()
  bool adapts = false;           ///< with an adapter, of which the dropout is too
};
std::ostream& operator<<(std::ostream& out, const Kind& kind) {
  return out << kind.name;
}

const std::vector<Kind> kKinds = {
    {"float32", tensor::DType::f32, false},
    {"float32 tied", tensor::DType::f32, true},
    {"bfloat16", tensor::DType::bf16, false},
    {"bfloat16 tied", tensor::DType::bf16, true},
    {"float32, dropout", tensor::DType::f32, true, 0.2},
    {"bfloat16, dropout", tensor::DType::bf16, false, 0.2},
    {"float32, biases", tensor::DType::f32, false, 0, true},
    {"bfloat16, biases", tensor::DType::bf16, true, 0, true},
    {"packed documents", tensor::DType::f32, false, 0, false, true},
    {"packed documents, bfloat16, tied, dropout", tensor::DType::bf16, true, 0.2, false, true},
    {"mistral", tensor::DType::f32, false, 0, false, false, "mistral"},
    {"qwen2", tensor::DType::bf16, true, 0, false, false, "qwen2"},
    {"qwen3", tensor::DType::bf16, false, 0, false, false, "qwen3"},
    {"phi3, packed", tensor::DType::f32, false, 0, false, true, "phi3"},
    {"smollm3", tensor::DType::f32, true, 0, false, false, "smollm3"},
    {"gemma, dropout", tensor::DType::f32, true, 0.2, false, false, "gemma"},
    {"gemma2", tensor::DType::f32, true, 0, false, false, "gemma2"},
    {"gemma2, packed, bfloat16, dropout", tensor::DType::bf16, false, 0.2, false, true, "gemma2"},
    {"gemma3", tensor::DType::f32, true, 0, false, true, "gemma3_text"},
    {"granite", tensor::DType::f32, false, 0.2, false, false, "granite"},
    {"granite, bfloat16", tensor::DType::bf16, true, 0, false, false, "granite"},
    {"olmo2", tensor::DType::f32, false, 0, false, false, "olmo2"},
    {"olmo2, packed, bfloat16, dropout", tensor::DType::bf16, true, 0.2, false, true, "olmo2"},
    {"mixtral, packed", tensor::DType::f32, false, 0, false, true, "mixtral"},
    {"qwen3_moe, bfloat16, dropout", tensor::DType::bf16, false, 0.2, false, false, "qwen3_moe"},
    {"adapter", tensor::DType::f32, true, 0, false, false, "", true},
    {"adapter, packed, bfloat16, dropout", tensor::DType::bf16, false, 0.2, true, true, "", true},
    {"adapter of gemma2, dropout", tensor::DType::f32, true, 0.2, false, false, "gemma2", true}};

struct Cut {
  const char* name;
  std::vector<int> layers_of_chunk;
  std::vector<int> stage_of_chunk;
  Order order;
};
std::ostream& operator<<(std::ostream& out, const Cut& cut) {
  return out << cut.name;
}

const std::vector<Cut> kCuts = {
    {"one stage, all forward first", {5}, {0}, Order::all_forward},
    {"one stage, weights late", {5}, {0}, Order::late_weights},
    {"two chunks on one stage", {2, 3}, {0, 0}, Order::one_by_one},
    {"two stages", {2, 3}, {0, 1}, Order::all_forward},
    {"two stages, weights late", {4, 1}, {0, 1}, Order::late_weights},
    {"two stages, two chunks each", {1, 2, 1, 1}, {0, 1, 0, 1}, Order::mixed_backward},
    {"two stages, there and back", {1, 1, 2, 1}, {0, 1, 1, 0}, Order::late_weights},
    {"three stages", {2, 1, 2}, {0, 1, 2}, Order::mixed_backward},
    {"embedding and head alone", {0, 5, 0}, {0, 1, 2}, Order::all_forward},
    {"embedding and head alone, weights late", {0, 5, 0}, {0, 1, 2}, Order::late_weights},
    {"stages that hold nothing", {2, 0, 0, 3}, {0, 1, 2, 3}, Order::mixed_backward},
    {"empty chunks beside others", {0, 3, 0, 2, 0, 0}, {0, 1, 0, 1, 0, 1}, Order::late_weights},
};

stages::ModelConfig model_of(const Kind& kind) {
  const stages::ModelConfig sizes{.hidden_size = 40,
                                  .intermediate_size = 56,
                                  .num_hidden_layers = 5,
                                  .num_attention_heads = 4,
                                  .num_key_value_heads = 2,
                                  .head_dim = 10,
                                  .vocab_size = 61,
                                  .attention_bias = kind.biases,
                                  .mlp_bias = kind.biases,
                                  .tie_word_embeddings = kind.tied,
                                  .initializer_range = 0.1,
                                  .hidden_dropout = kind.dropout,
                                  .attention_dropout = kind.dropout,
                                  .dtype = kind.dtype};
  const stages::ModelConfig model = as_family(sizes, kind.family);
  return kind.adapts ? with_adapter(model, kind.dropout) : model;
}

struct Run {
  std::vector<StepResult> steps;
  double evaluation = 0;
  std::map<std::string, std::string> state;
};

Tokens tokens_of(const Kind& kind, std::uint64_t seed) {
  if (!kind.packed) return random_tokens(2 * kSeqLen, 61, seed);
  return random_documents(stages::row_sizes(stages::Documents::packed, 2 * kSeqLen, 1), kSeqLen, 61,
                          seed);
}

Run train(const Kind& kind, const Cut& cut) {
  const auto device = test::make_test_device();
  Pipeline pipeline(
      {.model = model_of(kind),
       .layers_of_chunk = cut.layers_of_chunk,
       .stage_of_chunk = cut.stage_of_chunk,
       .microbatches = kMicrobatches,
       .micro = 2,
       .seq_len = kSeqLen,
       .documents = kind.packed ? stages::Documents::packed : stages::Documents::joined,
       .order = cut.order},
      *device, 11);
  const stages::OptimizerConfig optimizer = {.lr = 1e-2, .clip = 0.5, .warmup_steps = 2};
  Run run;
  for (int step = 1; step <= kSteps; ++step) {
    std::vector<Tokens> batch;
    for (int m = 0; m < kMicrobatches; ++m) {
      batch.push_back(tokens_of(kind, static_cast<std::uint64_t>(step * 100 + m)));
    }
    run.steps.push_back(pipeline.step(optimizer, step, batch));
  }
  run.evaluation = pipeline.evaluate(tokens_of(kind, 7));
  run.state = pipeline.state();
  return run;
}

}  // namespace

BOOST_DATA_TEST_CASE(every_cut_gives_the_bits_of_one_stage, boost::unit_test::data::make(kKinds),
                     kind) {
  const Run whole = train(kind, {"", {5}, {0}, Order::one_by_one});
  BOOST_TEST(whole.steps.back().norm > 0.5);  // so that clipping counts
  BOOST_TEST(whole.evaluation > 0);
  for (const Cut& cut : kCuts) {
    BOOST_TEST_CONTEXT(cut) {
      const Run run = train(kind, cut);
      for (std::size_t i = 0; i < whole.steps.size(); ++i) {
        BOOST_TEST(run.steps[i].losses == whole.steps[i].losses, boost::test_tools::per_element());
        BOOST_TEST(run.steps[i].norm == whole.steps[i].norm);
      }
      BOOST_TEST(run.evaluation == whole.evaluation);
      BOOST_REQUIRE(run.state.size() == whole.state.size());
      for (const auto& [name, bits] : whole.state) BOOST_TEST((run.state.at(name) == bits), name);
    }
  }
}

BOOST_AUTO_TEST_CASE(a_dropped_step_leaves_no_trace) {
  const Kind kind = {"", tensor::DType::f32, true};
  const auto device = test::make_test_device();
  const auto run = [&](bool drop) {
    Pipeline pipeline({.model = model_of(kind),
                       .layers_of_chunk = {2, 3},
                       .stage_of_chunk = {0, 1},
                       .microbatches = 1,
                       .seq_len = 9},
                      *device, 11);
    if (drop) pipeline.gradients({random_tokens(9, 61, 1)});
    pipeline.step({}, 1, {random_tokens(9, 61, 2)});
    return pipeline.state();
  };
  BOOST_TEST((run(true) == run(false)));
}

BOOST_AUTO_TEST_CASE(evaluation_changes_nothing_even_between_forward_and_backward) {
  const Kind kind = {"", tensor::DType::bf16, false};
  const auto device = test::make_test_device();
  const PipelineSpec spec = {.model = model_of(kind),
                             .layers_of_chunk = {5},
                             .stage_of_chunk = {0},
                             .microbatches = 1,
                             .seq_len = 9};
  const Tokens tokens = random_tokens(9, 61, 1);
  const auto run = [&](bool evaluate) {
    double sum = 0;
    const tensor::Tensor loss{&sum, tensor::DType::f64, {1}};
    Pipeline pipeline(spec, *device, 11);
    stages::Stage& stage = *pipeline.stages().front();
    for (int step = 1; step <= 2; ++step) {
      stage.begin_step();
      run_forward(stage, {.ids = tokens.ids, .targets = tokens.targets, .loss = loss});
      if (evaluate) pipeline.evaluate(random_tokens(9, 61, 2));
      run_backward(stage, {.pass = stages::Pass::input_gradient});
      if (evaluate) pipeline.evaluate(random_tokens(9, 61, 3));
      run_backward(stage, {.pass = stages::Pass::weight_gradient});
      end_backward(stage);
      if (evaluate) pipeline.evaluate(random_tokens(9, 61, 4));
      stage.apply(stages::adamw_step({}, step, 1));
      if (evaluate) pipeline.evaluate(random_tokens(9, 61, 5));
    }
    return pipeline.state();
  };
  BOOST_TEST((run(true) == run(false)));
}

BOOST_AUTO_TEST_CASE(a_stage_that_does_not_train_evaluates_alike) {
  for (const Kind& kind : kKinds) {
    const auto device = test::make_test_device();
    Pipeline pipeline({.model = model_of(kind),
                       .layers_of_chunk = {2, 3},
                       .stage_of_chunk = {0, 1},
                       .seq_len = 9},
                      *device, 11);
    stages::StageSpec spec = {.model = model_of(kind), .seq_len = 9, .training = false};
    spec.chunks = {{.first_layer = 0, .end_layer = 5, .embedding = true, .head = true}};
    const auto stage = make_transformer_stage(spec, *device);
    initialize(*stage, spec.model, 11, 1);
    if (spec.model.adapter) draw_base(*stage, spec, *device, 11);
    stage->begin_step();
    const Tokens tokens = random_tokens(9, 61, 1);
    const double loss = stage->evaluate(0, {}, {}, tokens.ids, tokens.targets);
    BOOST_TEST(loss == pipeline.evaluate(tokens), kind);
    BOOST_TEST(!stage->gradients());
    BOOST_TEST(!stage->parameters().front().exp_avg);
  }
}

BOOST_AUTO_TEST_SUITE_END()
