#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "stages/model/model_config.h"
#include "stages/model/sharding.h"
#include "tests/support/null_stage.h"
#include "tests/support/test_device.h"

namespace troupe::test {

/// Which of how many replicas a stage is that divide each parameter's rows as evenly as they can.
struct FakeReplica {
  int index = 0;
  int count = 1;
  bool twins = false;  ///< it keeps the slices of the one before it too
};

/// A stage that only holds parameters: those of the decoder layers [first, end), with embedding and
/// head as a pipeline would place them, or a shard's regions of them. It computes nothing.
class FakeStage : public NullStage {
 public:
  FakeStage(const stages::ModelConfig& model, int first, int end,
            const stages::Sharding& sharding = {}, const FakeReplica& replica = {})
      : NullStage(1, {}), model_(model), sharding_(sharding), replica_(replica) {
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

  /// Fills every tensor, but for padding, with values that differ by name, tensor and element of
  /// the whole parameter.
  void fill() {
    for (const stages::Parameter& parameter : parameters_) {
      fill(parameter, parameter.region, parameter.weight, "w");
      const tensor::Region kept = parameter.region_of(parameter.slice);
      fill(parameter, kept, parameter.exp_avg, "m");
      fill(parameter, kept, parameter.exp_avg_sq, "v");
      if (parameter.twin_slice < 0) continue;
      const tensor::Region twin = parameter.region_of(parameter.twin_slice);
      fill(parameter, twin, parameter.twin_exp_avg, "m");
      fill(parameter, twin, parameter.twin_exp_avg_sq, "v");
    }
  }
  int times_changed() const { return times_changed_; }

  std::span<const stages::Parameter> parameters() const override { return parameters_; }
  void weights_changed() override { ++times_changed_; }

 private:
  void add(const stages::ParameterInfo& info, bool owned) {
    const tensor::Shape shape = stages::local_shape(info, model_, sharding_);
    std::vector<std::int64_t> cuts;
    for (int i = 0; i <= replica_.count; ++i) cuts.push_back(shape[0] * i / replica_.count);
    const auto shape_of = [&](int slice) {
      const auto i = static_cast<std::size_t>(slice);
      const std::int64_t rows = cuts[i + 1] - cuts[i];
      return shape.rank() > 1 ? tensor::Shape{rows, shape[1]} : tensor::Shape{rows};
    };
    const tensor::Shape kept = shape_of(replica_.index);
    const int twin = (replica_.index + replica_.count - 1) % replica_.count;
    const tensor::Shape of_twin = shape_of(twin);
    parameters_.push_back({.name = info.name,
                           .weight = make(shape),
                           .gradient = {},
                           .exp_avg = make(kept),
                           .exp_avg_sq = make(kept),
                           .update = info.update,
                           .owned = owned && stages::owns_region(info, model_, sharding_),
                           .owned_by_stage = owned,
                           .whole_shape = info.shape,
                           .region = stages::region_of(info, model_, sharding_),
                           .row_cuts = std::move(cuts),
                           .slice = replica_.index});
    stages::Parameter& parameter = parameters_.back();
    parameter.kept_weight = parameter.rows_of(parameter.slice, parameter.weight);
    if (!replica_.twins) return;
    parameter.twin_slice = twin;
    parameter.twin_weight = parameter.rows_of(twin, parameter.weight);
    parameter.twin_exp_avg = make(of_twin);
    parameter.twin_exp_avg_sq = make(of_twin);
  }
  tensor::Tensor make(const tensor::Shape& shape) {
    memory_.push_back(
        device().allocate(static_cast<std::size_t>(shape.num_elements()) * sizeof(float),
                          tensor::MemoryKind::device));
    return memory_.back().view(tensor::DType::f32, shape);
  }
  static void fill(const stages::Parameter& parameter, const tensor::Region& region,
                   const tensor::Tensor& tensor, const std::string& kind) {
    const auto base = static_cast<float>(std::hash<std::string>{}(parameter.name + kind) % 100000);
    const auto& [row, rows, column, columns] = region;
    const std::int64_t stride = tensor::whole(parameter.whole_shape).columns;
    float* next = opened(tensor).as<float>();
    for (std::int64_t r = row; r < row + rows; ++r)
      for (std::int64_t c = column; c < column + columns; ++c)
        *next++ = base + static_cast<float>(r * stride + c) / 1024;
  }

  stages::ModelConfig model_;
  stages::Sharding sharding_;
  FakeReplica replica_;
  std::vector<tensor::Buffer> memory_;
  std::vector<stages::Parameter> parameters_;
  int times_changed_ = 0;
};

inline bool same_bytes(const tensor::Tensor& a, const tensor::Tensor& b) {
  return a.shape == b.shape && std::memcmp(opened(a.data), opened(b.data), a.num_bytes()) == 0;
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
