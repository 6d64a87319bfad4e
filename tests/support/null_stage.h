#pragma once

#include "stages/stage.h"

namespace troupe::test {

/// A stage that computes nothing: what remains of a step is the interpreter and the channel.
class NullStage : public stages::Stage {
 public:
  NullStage(int num_chunks, tensor::Shape edge) : num_chunks_(num_chunks), edge_(edge) {}

  int num_chunks() const override { return num_chunks_; }
  tensor::Shape edge_shape() const override { return edge_; }
  tensor::DType edge_dtype() const override { return tensor::DType::f32; }
  void begin_step() override {}
  int num_nodes(int) const override { return 1; }
  stages::ForwardResult forward_node(const stages::ForwardCall&, int) override { return {}; }
  void backward_node(const stages::BackwardCall&, int) override {}
  stages::ForwardResult evaluate(int, const tensor::Tensor&, const tensor::Tensor&,
                                 std::span<const std::int32_t>,
                                 std::span<const std::int32_t>) override {
    return {};
  }
  void backward_weight(int, int, int) override {}
  std::span<const stages::Parameter> parameters() const override { return {}; }
  tensor::Tensor gradients() const override { return {}; }
  tensor::Tensor tied_gradient() const override { return {}; }
  void end_backward() override {}
  void squared_norms(std::span<double>) const override {}
  void apply(const tensor::AdamWStep&) override {}
  void step_back() override {}
  bool has_previous() const override { return false; }
  void weights_changed() override {}

 private:
  int num_chunks_;
  tensor::Shape edge_;
};

}  // namespace troupe::test
