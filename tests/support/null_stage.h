#pragma once

#include <array>
#include <vector>

#include "stages/decoder/chunk/chunk_layers.h"
#include "stages/decoder/stage/transformer_stage.h"
#include "tests/support/test_device.h"

namespace troupe::test {

/// A stage that computes nothing, so that only the interpreter and the channel remain of a step.
/// Its chunks have the nodes of one decoder layer, or of `chunk` in a shard. `routed`: by layer of
/// the model, whether it has experts; empty: none has.
class NullStage : public stages::Stage {
 public:
  NullStage(int num_chunks, tensor::Shape edge,
            const stages::ChunkSpec& chunk = {.first_layer = 0, .end_layer = 1},
            const stages::Sharding& sharding = {}, const std::vector<char>& routed = {})
      : layers_{.spec = chunk, .sharding = sharding, .routed = routed},
        rows_{row_of(layers_, stages::Pass::forward), row_of(layers_, stages::Pass::backward),
              row_of(layers_, stages::Pass::input_gradient),
              row_of(layers_, stages::Pass::weight_gradient)},
        num_chunks_(num_chunks),
        edge_(edge) {}

  int num_chunks() const override { return num_chunks_; }
  stages::StageMemory allocated() const override { return {}; }
  void join(const stages::ShardGroups&) override {}
  void set_gate(stages::NodeGate*) override {}
  std::span<const stages::StateBucket> buckets() const override { return {}; }
  void pack(int, stages::Pass) override {}
  tensor::Shape edge_shape() const override { return edge_; }
  tensor::DType edge_dtype() const override { return tensor::DType::f32; }
  void begin_step() override {}
  std::int64_t give_up_gradients() override { return 0; }
  std::span<const stages::NodeEffects> nodes(int, stages::Pass pass) const override {
    return row(pass).ends;
  }
  const tensor::Work* awaited(stages::Pass, int, int, int) const override { return nullptr; }
  void forward_node(const stages::ForwardCall&, int) override {}
  void backward_node(const stages::BackwardCall&, int) override {}
  tensor::Event& ran(int, int) override { return *ran_; }
  tensor::Stream& stream_of(stages::Pass) const override { return *stream_; }
  void synchronize() override {}
  void drop_step() override {}
  double collective_wait_s() const override { return 0; }
  double evaluate(int, const tensor::Tensor&, const tensor::Tensor&, std::span<const std::int32_t>,
                  std::span<const std::int32_t>, const stages::DocumentRows&) override {
    return 0;
  }
  tensor::Device& device() { return *device_; }
  std::span<const stages::Parameter> parameters() const override { return {}; }
  tensor::Tensor gradients() const override { return {}; }
  tensor::Tensor weights() const override { return {}; }
  tensor::Tensor tied_gradient() const override { return {}; }
  void add_tied_uses(tensor::Stream&, const stages::ParameterRange&) override {}
  std::unique_ptr<tensor::Work> sum_over_shards(tensor::Stream&, const stages::ParameterRange&,
                                                stages::Sharers) override {
    return nullptr;
  }
  void squared_norms(std::span<double>) const override {}
  void apply(const tensor::AdamWStep&) override {}
  void step_back() override {}
  bool has_previous() const override { return false; }
  void weights_changed() override {}
  void weights_gathered() override {}

 protected:
  const stages::NodeRow& row(stages::Pass pass) const {
    return rows_[static_cast<std::size_t>(pass)];
  }

 private:
  const std::unique_ptr<tensor::Device> device_ = make_test_device();
  const std::unique_ptr<tensor::Stream> stream_ = device_->make_stream();
  const std::unique_ptr<tensor::Event> ran_ = device_->make_event();
  const stages::ChunkLayers layers_;
  const std::array<stages::NodeRow, 4> rows_;
  int num_chunks_;
  tensor::Shape edge_;
};

}  // namespace troupe::test
