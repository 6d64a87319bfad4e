#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "stages/decoder/stage/optimizer.h"
#include "stages/decoder/stage/transformer_stage.h"
#include "tensor/device/device.h"
#include "tensor/device/linear.h"

namespace troupe::bench {

/// A model and batch that a GPU is measured with.
struct GpuWorkload {
  stages::ModelConfig model;
  std::int64_t seq_len = 0;
  std::int64_t micro = 0;
  int microbatches = 0;

  std::int64_t rows() const { return micro * seq_len; }
  std::int64_t tokens() const { return rows() * microbatches; }
};

/// `size` is "1b5" (1.45 billion parameters: hidden 2048, feed-forward 5632, 28 layers, 16 heads on
/// 8 key-value heads) or "7b" (four layers as of a model with 7 billion: hidden 4096, feed-forward
/// 11008, 32 heads). bfloat16, vocabulary 32000, 4 microbatches of 8192 tokens. Throws Error{usage}
/// for another size.
GpuWorkload gpu_workload(const std::string& size, std::int64_t seq_len);

/// Everything that a single rank does between two lines of metrics.
class GpuStep {
 public:
  GpuStep(const GpuWorkload& workload, tensor::Device& device);
  /// Runs a step and waits for its end.
  void run();

 private:
  const GpuWorkload workload_;
  const stages::OptimizerConfig optimizer_{.max_steps = 1'000'000};
  std::int64_t step_ = 0;
  std::unique_ptr<stages::Stage> stage_;
  tensor::Buffer pinned_;
  std::vector<double> squared_norms_;
};

/// The matrix products of the same step's linear layers alone, each by the device's own Linear, in
/// the step's order, on random values. Products of one shape share their matrices, of which those
/// of a 1b5 layer fit the L2: a lower bound of their time.
class GpuProducts {
 public:
  GpuProducts(const GpuWorkload& workload, tensor::Device& device);
  void run();
  double flop() const { return flop_; }

 private:
  struct Layer {
    std::unique_ptr<tensor::Linear> linear;
    tensor::Tensor x, y, w, dw;
    void* packed = nullptr;
  };
  void add(std::int64_t in, std::int64_t out, tensor::DType output);
  tensor::Tensor allocate(tensor::DType dtype, tensor::Shape shape);
  void forward(Layer& layer);
  void backward(Layer& layer);

  const GpuWorkload workload_;
  tensor::Device& device_;
  std::unique_ptr<tensor::Stream> stream_;
  std::vector<tensor::Buffer> buffers_;
  std::vector<Layer> layers_;  // those of a decoder layer, then the head
  double flop_ = 0;
};

}  // namespace troupe::bench
