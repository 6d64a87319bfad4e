#pragma once

#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "stages/decoder/stage/transformer_stage.h"
#include "stages/inference/generator.h"
#include "tensor/values/random.h"
#include "tests/support/families.h"
#include "tests/support/reference_models.h"
#include "tests/support/test_device.h"

namespace troupe::test {

/// A generator on a device of its own.
class OwnGenerator {
 public:
  OwnGenerator(const stages::GeneratorSpec& spec, const stages::PartLinks& links)
      : OwnGenerator(spec, links, make_test_device()) {}

  stages::Generator& operator*() const { return *generator_; }
  stages::Generator* operator->() const { return generator_.get(); }

 private:
  OwnGenerator(const stages::GeneratorSpec& spec, const stages::PartLinks& links,
               std::unique_ptr<tensor::Device> device)
      : device_(std::move(device)),
        generator_(std::make_unique<stages::Generator>(spec, *device_, links)) {}

  std::unique_ptr<tensor::Device> device_;
  std::unique_ptr<stages::Generator> generator_;
};

/// A small model with random weights, the same for every generator that is made of it, and what it
/// should compute.
class GenerationModel {
 public:
  explicit GenerationModel(const stages::ModelConfig& config)
      : config_(config),
        device_(tensor::make_cpu_device(1)),
        stage_(stages::make_transformer_stage(
            {.model = config,
             .chunks = {{.end_layer = static_cast<int>(config.num_hidden_layers),
                         .embedding = true,
                         .head = true}},
             .seq_len = 1,
             .training = false},
            *device_)) {
    stages::initialize(*stage_, config, 1, 1);
    for (const stages::Parameter& p : stage_->parameters()) {
      whole_[p.name] = p.weight;
      if (p.whole_shape.rank() > 1) continue;
      // Norms begin as ones and biases as zeros, which would hide a mistake.
      const tensor::Random random(2, p.name);
      for (std::int64_t i = 0; i < p.weight.num_elements(); ++i)
        p.weight.as<float>()[i] +=
            0.1f * static_cast<float>(random.normal(static_cast<std::uint64_t>(i)));
    }
  }

  const stages::ModelConfig& config() const { return config_; }

  /// A generator of this model; `spec` lacks it.
  OwnGenerator generator(stages::GeneratorSpec spec, const stages::PartLinks& links = {}) const {
    spec.model = config_;
    OwnGenerator made(spec, links);
    load(*made);
    return made;
  }
  /// Gives a generator of this model its weights.
  void load(stages::Generator& generator) const {
    generator.load_weights([this](std::span<const stages::Parameter> parameters, tensor::Device&) {
      for (const stages::Parameter& p : parameters) copy_region(whole_.at(p.name), p);
    });
  }

  /// The logits after the last of `ids`, in double precision.
  reference::Values logits(const std::vector<std::int32_t>& ids) const {
    const auto model =
        reference::make_reference(config_, static_cast<std::int64_t>(ids.size()), *stage_);
    const reference::Values all = model->logits(ids);
    return {all.end() - config_.vocab_size, all.end()};
  }

 private:
  static void copy_region(const tensor::Tensor& whole, const stages::Parameter& p) {
    const std::int64_t columns = whole.shape.rank() > 1 ? whole.shape[1] : 1;
    float* to = opened(p.weight).as<float>();
    for (std::int64_t row = 0; row < p.region.rows; ++row, to += p.region.columns) {
      const float* from = whole.as<float>() + (p.region.row + row) * columns + p.region.column;
      std::copy_n(from, p.region.columns, to);
    }
  }

  const stages::ModelConfig config_;
  const std::unique_ptr<tensor::Device> device_;
  const std::unique_ptr<stages::Stage> stage_;
  std::map<std::string, tensor::Tensor> whole_;
};

/// The models of the tests: each kind, with what it alone has.
inline std::vector<stages::ModelConfig> generation_models() {
  const stages::ModelConfig llama{.hidden_size = 16,
                                  .intermediate_size = 24,
                                  .num_hidden_layers = 3,
                                  .num_attention_heads = 4,
                                  .num_key_value_heads = 2,
                                  .head_dim = 6,
                                  .vocab_size = 23,
                                  .initializer_range = 0.2};
  stages::ModelConfig tied = llama, gpt2 = llama;
  tied.tie_word_embeddings = tied.attention_bias = tied.mlp_bias = true;
  tied.rotary = {
      .type = tensor::RotaryType::yarn, .factor = 4, .original_max_position_embeddings = 8};
  gpt2.kind = stages::ModelKind::gpt2;
  gpt2.num_key_value_heads = gpt2.num_attention_heads;
  gpt2.head_dim = 4;
  gpt2.max_position_embeddings = 40;
  std::vector<stages::ModelConfig> all{llama, tied, gpt2};
  for (const char* family : kFamilies) all.push_back(as_family(llama, family));
  return all;
}

}  // namespace troupe::test
