#include "tensor/parallel/megatron/deferred_weight_gradients.h"

#include "tensor/errors/error.h"

namespace troupe::tensor {

DeferredWeightGradients::DeferredWeightGradients(ColumnParallelLinear& layer, const Target& target,
                                                 std::size_t limit)
    : layer_(layer), target_(target), ring_(limit) {
  TROUPE_ASSERT(limit >= 1);
}

void DeferredWeightGradients::defer(Stream& stream, const Microbatch& microbatch) {
  if (count_ == ring_.size()) {
    wait(gather(stream, 0), stream);
    compute_oldest(stream);
  }
  ring_[(oldest_ + count_) % ring_.size()] = microbatch;
  ++count_;
}

void DeferredWeightGradients::compute_all(Stream& stream) {
  if (count_ == 0) return;
  auto gathered = gather(stream, 0);
  while (count_ > 0) {
    wait(gathered, stream);
    gathered = count_ > 1 ? gather(stream, 1) : nullptr;
    compute_oldest(stream);
  }
}

const Tensor& DeferredWeightGradients::input(std::size_t place) const {
  return layer_.gathered_elements() > 0 ? target_.x_full[(turn_ + place) % 2] : at(place).x;
}

std::unique_ptr<Work> DeferredWeightGradients::gather(Stream& stream, std::size_t place) {
  return layer_.gather_input(stream, at(place).x, input(place));
}

void DeferredWeightGradients::compute_oldest(Stream& stream) {
  const Microbatch& oldest = at(0);
  layer_.weight_gradient(stream, oldest.dy, input(0), target_.dw, target_.db, oldest.gradient);
  oldest_ = (oldest_ + 1) % ring_.size();
  turn_ = (turn_ + 1) % 2;
  --count_;
}

}  // namespace troupe::tensor
