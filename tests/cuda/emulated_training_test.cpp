// A model trained by CUDA's ops on the emulated grid, against the same on the CPU.

#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>

#include "tests/support/emulated_device.h"
#include "tests/support/families.h"
#include "tests/support/pipeline.h"

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(emulated_training_test)

namespace {

constexpr int kSteps = 4;
constexpr int kMicrobatches = 2;
constexpr std::int64_t kSeqLen = 9, kMicro = 2, kVocabulary = 61;

struct Kind {
  const char* name;
  stages::ModelKind model;
  tensor::DType dtype;
  double dropout;
  double tolerance;  // of a loss, relative
};
std::ostream& operator<<(std::ostream& out, const Kind& kind) {
  return out << kind.name;
}

// In bfloat16 a number near the middle of two is rounded up here and down there, for a last digit
// of float32, and AdamW's first steps make of the sign of a gradient a whole step.
const std::vector<Kind> kKinds = {
    {"llama", stages::ModelKind::llama, tensor::DType::f32, 0, 1e-5},
    {"llama, dropout", stages::ModelKind::llama, tensor::DType::f32, 0.2, 1e-5},
    {"llama, bfloat16", stages::ModelKind::llama, tensor::DType::bf16, 0, 5e-3},
    {"gpt2", stages::ModelKind::gpt2, tensor::DType::f32, 0, 1e-5},
    {"gpt2, dropout", stages::ModelKind::gpt2, tensor::DType::f32, 0.2, 1e-5},
    {"experts", stages::ModelKind::qwen3_moe, tensor::DType::f32, 0, 1e-5},
};

struct Run {
  std::vector<StepResult> steps;
  double evaluation = 0;
  std::map<std::string, std::string> state;
};

stages::ModelConfig model_of(const Kind& kind) {
  const stages::ModelConfig model{
      .kind = kind.model,
      .hidden_size = 40,
      .intermediate_size = 56,
      .num_hidden_layers = 3,
      .num_attention_heads = 4,
      .num_key_value_heads = kind.model == stages::ModelKind::gpt2 ? 4 : 2,
      .head_dim = 10,
      .vocab_size = kVocabulary,
      .max_position_embeddings = kSeqLen,
      .initializer_range = 0.1,
      .hidden_dropout = kind.dropout,
      .attention_dropout = kind.dropout,
      .dtype = kind.dtype};
  return kind.model == stages::ModelKind::qwen3_moe ? as_family(model, "qwen3_moe") : model;
}

Run train(const Kind& kind, tensor::Device& device) {
  Pipeline pipeline({.model = model_of(kind),
                     .layers_of_chunk = {3},
                     .stage_of_chunk = {0},
                     .microbatches = kMicrobatches,
                     .micro = kMicro,
                     .seq_len = kSeqLen},
                    device, 11);
  const stages::OptimizerConfig optimizer = {.lr = 1e-2, .clip = 0.5, .warmup_steps = 2};
  Run run;
  for (int step = 1; step <= kSteps; ++step) {
    std::vector<Tokens> batch;
    for (int m = 0; m < kMicrobatches; ++m) {
      batch.push_back(
          random_tokens(kMicro * kSeqLen, kVocabulary, static_cast<std::uint64_t>(step * 100 + m)));
    }
    run.steps.push_back(pipeline.step(optimizer, step, batch));
  }
  run.evaluation = pipeline.evaluate(random_tokens(kMicro * kSeqLen, kVocabulary, 7));
  run.state = pipeline.state();
  return run;
}

bool near(double a, double b, double tolerance) {
  return std::abs(a - b) <= tolerance * std::abs(b);
}

}  // namespace

BOOST_DATA_TEST_CASE(a_model_trains_as_on_the_cpu, boost::unit_test::data::make(kKinds), kind) {
  const auto cpu = tensor::make_cpu_device(1);
  const Run expected = train(kind, *cpu);
  BOOST_TEST(expected.steps.back().losses != expected.steps.front().losses);
  Run first;
  for (const std::uint64_t seed : {0u, 1u, 2u}) {
    BOOST_TEST_CONTEXT("seed " << seed) {
      EmulatedDevice device(seed);
      const Run run = train(kind, device);
      for (std::size_t i = 0; i < kSteps; ++i) {
        const StepResult &got = run.steps[i], &cpus = expected.steps[i];
        BOOST_TEST(near(got.norm, cpus.norm, 10 * kind.tolerance), got.norm << " " << cpus.norm);
        for (std::size_t m = 0; m < kMicrobatches; ++m) {
          BOOST_TEST(near(got.losses[m], cpus.losses[m], kind.tolerance),
                     "step " << i << ": " << got.losses[m] << ", the CPU's " << cpus.losses[m]);
        }
      }
      BOOST_TEST(near(run.evaluation, expected.evaluation, kind.tolerance));
      if (seed == 0) first = run;
      BOOST_TEST((run.state == first.state), "the bits depend on the order of threads");
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test
