#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "stages/model_config.h"
#include "tests/support/null_stage.h"

namespace troupe::test {

/// A stage that only holds parameters: those of the decoder layers [first, end), with embedding and
/// head as a pipeline would place them. It computes nothing.
class FakeStage final : public NullStage {
 public:
  FakeStage(const stages::ModelConfig& model, int first, int end) : NullStage(1, {}) {
    const auto last = static_cast<int>(model.num_hidden_layers);
    for (const stages::ParameterInfo& info : stages::parameters_of(model)) {
      const bool held = info.layer < 0       ? first == 0
                        : info.layer == last ? end == last
                                             : info.layer >= first && info.layer < end;
      if (held) add(info, true);
    }
    // A tied head on another stage than the embedding has a copy of it.
    if (model.tie_word_embeddings && end == last && first > 0)
      add(stages::parameters_of(model).front(), false);
  }

  /// Fills every tensor with values that differ by name, tensor and element.
  void fill() {
    for (const stages::Parameter& parameter : parameters_) {
      fill(parameter.weight, parameter.name + "w");
      fill(parameter.exp_avg, parameter.name + "m");
      fill(parameter.exp_avg_sq, parameter.name + "v");
    }
  }
  int times_changed() const { return times_changed_; }

  std::span<const stages::Parameter> parameters() const override { return parameters_; }
  void weights_changed() override { ++times_changed_; }

 private:
  void add(const stages::ParameterInfo& info, bool owned) {
    parameters_.push_back({.name = info.name,
                           .weight = make(info.shape),
                           .gradient = {},
                           .exp_avg = make(info.shape),
                           .exp_avg_sq = make(info.shape),
                           .owned = owned,
                           .region = tensor::whole(info.shape)});
  }
  tensor::Tensor make(const tensor::Shape& shape) {
    memory_.emplace_back(static_cast<std::size_t>(shape.num_elements()));
    return {memory_.back().data(), tensor::DType::f32, shape};
  }
  static void fill(const tensor::Tensor& tensor, const std::string& name) {
    const auto base = static_cast<float>(std::hash<std::string>{}(name) % 100000);
    for (std::int64_t i = 0; i < tensor.num_elements(); ++i)
      tensor.as<float>()[i] = base + static_cast<float>(i) / 1024;
  }

  std::deque<std::vector<float>> memory_;
  std::vector<stages::Parameter> parameters_;
  int times_changed_ = 0;
};

inline bool same_bytes(const tensor::Tensor& a, const tensor::Tensor& b) {
  return a.shape == b.shape &&
         std::equal(a.as<std::byte>(), a.as<std::byte>() + a.num_bytes(), b.as<std::byte>());
}

/// A model of 3 layers that is quick to write.
inline stages::ModelConfig small_model() {
  return {.hidden_size = 8,
          .intermediate_size = 12,
          .num_hidden_layers = 3,
          .num_attention_heads = 2,
          .num_key_value_heads = 1,
          .head_dim = 4,
          .vocab_size = 16};
}

}  // namespace troupe::test
