#include "tests/bench/gpu/gpu_kernels.h"

#include <cstring>
#include <functional>

#include "tensor/device/ops.h"
#include "tests/bench/timing.h"

namespace troupe::bench {
namespace {

using namespace tensor;

constexpr std::int64_t kRows = 8192, kHidden = 4096, kFeedForward = 11008, kVocabulary = 32000;
constexpr std::int64_t kParameters = std::int64_t{1} << 27;

/// Times ops on tensors that it allocates.
class Kernels {
 public:
  explicit Kernels(Device& device)
      : device_(device),
        stream_(device.make_stream()),
        begin_(device.make_timed_event()),
        end_(device.make_timed_event()) {}

  Tensor zeros(DType dtype, Shape shape) {
    const auto bytes = static_cast<std::size_t>(shape.num_elements()) * size_of(dtype);
    buffers_.push_back(device_.allocate(bytes, MemoryKind::device));
    return buffers_.back().view(dtype, shape);
  }

  /// Tokens spread over the vocabulary.
  Tensor ids(std::int64_t count, std::int64_t vocabulary) {
    buffers_.push_back(device_.allocate(static_cast<std::size_t>(count) * 4, MemoryKind::pinned));
    const Tensor ids = buffers_.back().view(DType::i32, {count});
    for (std::int64_t i = 0; i < count; ++i)
      ids.as<std::int32_t>()[i] = static_cast<std::int32_t>(i * 7919 % vocabulary);
    return ids;
  }

  void add(const char* name, double bytes, const std::function<void(Ops&, Stream&)>& op) {
    constexpr int kWarmUp = 3, kTimes = 20;
    std::vector<double> seconds;
    for (int i = 0; i < kWarmUp + kTimes; ++i) {
      begin_->record(*stream_);
      op(device_.ops(), *stream_);
      end_->record(*stream_);
      end_->synchronize();
      if (i >= kWarmUp) seconds.push_back(end_->reached_s() - begin_->reached_s());
    }
    times_.push_back({.name = name, .bytes = bytes, .seconds = median(seconds)});
  }

  std::vector<KernelTime> take() { return std::move(times_); }
  /// Gives the tensors back.
  void clear() { buffers_.clear(); }

 private:
  Device& device_;
  std::unique_ptr<Stream> stream_;
  std::unique_ptr<Event> begin_, end_;
  std::vector<Buffer> buffers_;
  std::vector<KernelTime> times_;
};

void add_layer_ops(Kernels& kernels) {
  constexpr double kElements = static_cast<double>(kRows * kHidden);
  const Tensor x = kernels.zeros(DType::bf16, {kRows, kHidden});
  const Tensor y = kernels.zeros(DType::bf16, {kRows, kHidden});
  const Tensor dy = kernels.zeros(DType::bf16, {kRows, kHidden});
  const Tensor residual = kernels.zeros(DType::bf16, {kRows, kHidden});
  const Tensor w = kernels.zeros(DType::f32, {kHidden}), dw = kernels.zeros(DType::f32, {kHidden});
  const Tensor rstd = kernels.zeros(DType::f32, {kRows});
  kernels.add("copy", 4 * kElements, [&](Ops& ops, Stream& s) { ops.copy(s, x, y); });
  kernels.add("rms_norm", 4 * kElements,
              [&](Ops& ops, Stream& s) { ops.rms_norm(s, x, w, 1e-5f, 0, y, rstd); });
  kernels.add("rms_norm_backward", 8 * kElements, [&](Ops& ops, Stream& s) {
    ops.rms_norm_backward(s, dy, x, w, 0, rstd, residual, y, dw);
  });
  const Tensor ids = kernels.ids(kRows, kVocabulary);
  const Tensor table = kernels.zeros(DType::f32, {kVocabulary, kHidden});
  kernels.add("embedding", 6 * kElements,
              [&](Ops& ops, Stream& s) { ops.embedding(s, ids, table, x); });
  kernels.add("embedding_backward", 10 * kElements,
              [&](Ops& ops, Stream& s) { ops.embedding_backward(s, ids, x, table); });
  kernels.clear();
}

void add_feed_forward_ops(Kernels& kernels) {
  constexpr double kElements = static_cast<double>(kRows * kFeedForward);
  const Tensor gate_up = kernels.zeros(DType::bf16, {kRows, 2 * kFeedForward});
  const Tensor y = kernels.zeros(DType::bf16, {kRows, kFeedForward});
  const Tensor d = kernels.zeros(DType::bf16, {kRows, 2 * kFeedForward});
  kernels.add("swiglu", 6 * kElements, [&](Ops& ops, Stream& s) { ops.swiglu(s, gate_up, y); });
  kernels.add("swiglu_backward", 10 * kElements,
              [&](Ops& ops, Stream& s) { ops.swiglu_backward(s, gate_up, y, d); });
  kernels.clear();
}

void add_head_ops(Kernels& kernels) {
  constexpr double kElements = static_cast<double>(kRows * kVocabulary);
  const Tensor logits = kernels.zeros(DType::f32, {kRows, kVocabulary});
  const Tensor dlogits = kernels.zeros(DType::bf16, {kRows, kVocabulary});
  const Tensor targets = kernels.ids(kRows, kVocabulary);
  const Tensor loss = kernels.zeros(DType::f64, {1});
  kernels.add("cross_entropy", 6 * kElements, [&](Ops& ops, Stream& s) {
    ops.cross_entropy(s, logits, targets, 1e-4f, loss, dlogits);
  });
  kernels.clear();
}

void add_optimizer_ops(Kernels& kernels) {
  constexpr double kElements = static_cast<double>(kParameters);
  const Tensor g = kernels.zeros(DType::f32, {kParameters});
  const Tensor w = kernels.zeros(DType::f32, {kParameters});
  const Tensor m = kernels.zeros(DType::f32, {kParameters});
  const Tensor v = kernels.zeros(DType::f32, {kParameters});
  const Tensor copy = kernels.zeros(DType::bf16, {kParameters});
  constexpr std::int64_t kPieces = 256;
  constexpr std::int64_t piece = (kParameters + kPieces - 1) / kPieces;
  const Tensor sums = kernels.zeros(DType::f64, {kPieces});
  const AdamWUpdate update{{}, g, w, m, v, w, m, v, copy};
  kernels.add("adamw", 30 * kElements, [&](Ops& ops, Stream& s) { ops.adamw(s, {&update, 1}); });
  kernels.add("sums_of_squares", 4 * kElements,
              [&](Ops& ops, Stream& s) { ops.sums_of_squares(s, g, piece, sums); });
  kernels.clear();
}

}  // namespace

std::vector<KernelTime> measure_kernels(tensor::Device& device) {
  Kernels kernels(device);
  add_layer_ops(kernels);
  add_feed_forward_ops(kernels);
  add_head_ops(kernels);
  add_optimizer_ops(kernels);
  return kernels.take();
}

}  // namespace troupe::bench
