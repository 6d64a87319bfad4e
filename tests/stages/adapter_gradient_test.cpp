// Adapters against the double-precision reference of the model that they make when they are added
// to its weights: W + s B A.

#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>

#include "tests/support/adapters.h"
#include "tests/support/families.h"
#include "tests/support/pipeline.h"
#include "tests/support/reference_gpt2_model.h"
#include "tests/support/reference_llama_model.h"
#include "tests/support/test_device.h"

BOOST_AUTO_TEST_SUITE(adapter_gradient_test)

using namespace troupe;
using namespace troupe::test;

namespace {

struct Case {
  std::string name;
  stages::ModelConfig model;
};
std::ostream& operator<<(std::ostream& out, const Case& c) {
  return out << c.name;
}

stages::ModelConfig small(stages::ModelKind kind = stages::ModelKind::llama) {
  return {.kind = kind,
          .hidden_size = 32,
          .intermediate_size = 48,
          .num_hidden_layers = 3,
          .num_attention_heads = 4,
          .num_key_value_heads = kind == stages::ModelKind::gpt2 ? 4 : 2,
          .head_dim = 8,
          .vocab_size = 50,
          .max_position_embeddings = 20,
          .initializer_range = 0.15};
}

std::vector<Case> cases() {
  std::vector<Case> all{
      {"q and v", with_adapter(small(), 0, {"q_proj", "v_proj"})},
      {"o", with_adapter(small(), 0, {"o_proj"})},
      {"up and down", with_adapter(small(), 0, {"down_proj", "up_proj"})},
      {"gpt2", with_adapter(small(stages::ModelKind::gpt2))},
      {"gpt2, one fused tensor", with_adapter(small(stages::ModelKind::gpt2), 0, {"c_attn"})}};
  for (const char* family : {"qwen2", "qwen3", "phi3", "gemma2", "granite", "olmo2"})
    all.push_back({family, with_adapter(as_family(small(), family))});
  Case rslora{"rslora, tied, biases", small()};
  rslora.model.tie_word_embeddings = rslora.model.attention_bias = rslora.model.mlp_bias = true;
  rslora.model = with_adapter(rslora.model);
  rslora.model.adapter->rslora = true;
  all.push_back(rslora);
  return all;
}

constexpr std::int64_t kMicro = 2, kSeqLen = 13;

using reference::Values;

/// A B of the adapter, with what it belongs to.
struct Part {
  stages::ParameterInfo a, b, weight;
  std::size_t rows() const { return static_cast<std::size_t>(weight.shape[0]); }
  std::size_t columns() const { return static_cast<std::size_t>(weight.shape[1]); }
};

std::vector<Part> parts_of(const stages::ModelConfig& model) {
  const auto all = parameters_of(model);
  std::vector<Part> parts;
  for (const stages::ParameterInfo& b : all) {
    const bool is_first = b.field == stages::Field::lora_b;
    if (!is_first && b.field != stages::Field::out_lora_b) continue;
    Part part{.a = {}, .b = b, .weight = {}};
    int number = 0;
    for (const stages::ParameterInfo& info : all) {
      if (info.layer != b.layer || info.module != b.module) continue;
      const bool is_weight =
          info.field == (is_first ? stages::Field::weight : stages::Field::out_weight);
      if (is_weight && number++ == b.part) part.weight = info;
      const bool is_a =
          info.field == (is_first ? stages::Field::lora_a : stages::Field::out_lora_a);
      if (is_a && info.part <= b.part) part.a = info;
    }
    parts.push_back(part);
  }
  return parts;
}

using Weights = std::map<std::string, Values>;

Weights weights_of(const stages::Stage& stage) {
  Weights weights;
  for (const stages::Parameter& p : stage.parameters()) {
    const float* w = test::opened(p.weight).as<float>();
    weights[p.name].assign(w, w + p.weight.num_elements());
  }
  return weights;
}

/// The reference of the base with the adapter's matrices added to its weights.
std::unique_ptr<reference::Decoder> merged(const stages::ModelConfig& model,
                                           const Weights& weights) {
  stages::ModelConfig base = model;
  base.adapter.reset();
  std::unique_ptr<reference::Decoder> decoder;
  if (base.kind == stages::ModelKind::gpt2)
    decoder = std::make_unique<reference::Gpt2>(base, kSeqLen);
  else
    decoder = std::make_unique<reference::Llama>(base, kSeqLen);
  for (auto& [name, w] : decoder->weights) w = weights.at(name);
  const auto rank = static_cast<std::size_t>(model.adapter->rank);
  for (const Part& part : parts_of(model)) {
    Values& w = decoder->weights.at(part.weight.name);
    const Values &a = weights.at(part.a.name), &b = weights.at(part.b.name);
    for (std::size_t i = 0; i < part.rows(); ++i)
      for (std::size_t j = 0; j < part.columns(); ++j)
        for (std::size_t k = 0; k < rank; ++k)
          w[i * part.columns() + j] +=
              model.adapter->scale() * b[i * rank + k] * a[k * part.columns() + j];
  }
  return decoder;
}

/// The gradients of A and B from those of the weights that they are added to.
Weights gradients_of(const stages::ModelConfig& model, const Weights& weights,
                     const reference::Decoder& decoder) {
  Weights gradients;
  const auto rank = static_cast<std::size_t>(model.adapter->rank);
  for (const Part& part : parts_of(model)) {
    const Values& dw = decoder.gradients.at(part.weight.name);
    const Values &a = weights.at(part.a.name), &b = weights.at(part.b.name);
    Values &da = gradients[part.a.name], &db = gradients[part.b.name];
    da.resize(a.size());
    db.resize(b.size());
    for (std::size_t i = 0; i < part.rows(); ++i)
      for (std::size_t j = 0; j < part.columns(); ++j)
        for (std::size_t k = 0; k < rank; ++k) {
          const double d = model.adapter->scale() * dw[i * part.columns() + j];
          da[k * part.columns() + j] += d * b[i * rank + k];
          db[i * rank + k] += d * a[k * part.columns() + j];
        }
  }
  return gradients;
}

double relative_difference(const tensor::Tensor& got, const Values& exact) {
  double difference = 0, size = 0;
  for (std::size_t i = 0; i < exact.size(); ++i) {
    difference += std::pow(test::opened(got).as<float>()[i] - exact[i], 2);
    size += exact[i] * exact[i];
  }
  return std::sqrt(difference / size);
}

void compare(const Case& c, tensor::DType dtype, double loss_within, double gradient_within) {
  const auto device = test::make_test_device(2);
  stages::ModelConfig model = c.model;
  model.dtype = dtype;
  Pipeline pipeline({.model = model,
                     .layers_of_chunk = {3},
                     .stage_of_chunk = {0},
                     .microbatches = 2,
                     .micro = kMicro,
                     .seq_len = kSeqLen},
                    *device, 3);
  const stages::Stage& stage = *pipeline.stages().front();
  const std::vector<Tokens> batch{random_tokens(kMicro * kSeqLen, 50, 1),
                                  random_tokens(kMicro * kSeqLen, 50, 2)};
  const Weights weights = weights_of(stage);
  const auto decoder = merged(model, weights);
  const StepResult result = pipeline.gradients(batch);
  for (std::size_t m = 0; m < batch.size(); ++m) {
    const double loss =
        decoder->train(batch[m].ids, batch[m].targets, 1.0 / (2 * kMicro * kSeqLen));
    BOOST_TEST(std::abs(result.losses[m] / loss - 1) < loss_within);
  }
  double squares = 0;
  const Weights expected = gradients_of(model, weights, *decoder);
  for (const stages::Parameter& p : stage.parameters()) {
    if (p.update.is_base) {
      BOOST_TEST(!p.gradient);
      BOOST_TEST(p.exp_avg.num_elements() == 0);
      continue;
    }
    const Values& exact = expected.at(p.name);
    for (const double x : exact) squares += x * x;
    const double d = relative_difference(p.gradient, exact);
    BOOST_TEST(d < gradient_within, p.name << ": " << d);
  }
  BOOST_TEST(std::abs(result.norm / std::sqrt(squares) - 1) < gradient_within);
}

}  // namespace

BOOST_DATA_TEST_CASE(float32_is_the_reference, boost::unit_test::data::make(cases()), c) {
  compare(c, tensor::DType::f32, 2e-6, 2e-5);
}

BOOST_DATA_TEST_CASE(bfloat16_is_near_the_reference, boost::unit_test::data::make(cases()), c) {
  compare(c, tensor::DType::bf16, 2e-2, 0.2);
}

// Only the adapter's matrices change, and they change.
BOOST_AUTO_TEST_CASE(updates_leave_the_base) {
  const Case c = cases().front();
  const auto device = test::make_test_device();
  Pipeline pipeline(
      {.model = c.model, .layers_of_chunk = {3}, .stage_of_chunk = {0}, .seq_len = kSeqLen},
      *device, 3);
  const stages::Stage& stage = *pipeline.stages().front();
  const Weights before = weights_of(stage);
  for (int step = 1; step <= 3; ++step)
    pipeline.step({.lr = 1e-2}, step, {random_tokens(kSeqLen, 50, 1)});
  const Weights after = weights_of(stage);
  for (const stages::Parameter& p : stage.parameters())
    BOOST_TEST((before.at(p.name) == after.at(p.name)) == p.update.is_base, p.name);
}

BOOST_AUTO_TEST_SUITE_END()
