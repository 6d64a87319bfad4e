#include "actors/worker/step/token_broadcast.h"

#include "tensor/device/ops.h"
#include "tensor/errors/error.h"

namespace troupe::actors {

using tensor::DType;
using tensor::Tensor;

TokenBroadcast::TokenBroadcast(tensor::Device& device, tensor::ProcessGroup& shards)
    : device_(device),
      sends_(shards.member() == 0),
      stream_(device.make_stream()),
      broadcast_(device, shards) {}

void TokenBroadcast::run(std::span<std::int32_t> data) {
  const Tensor own{data.data(), DType::i32, {std::ssize(data)}};
  const auto sent = sends_ ? std::span(&own, 1) : std::span<const Tensor>();
  const Tensor received = broadcast_.run(*stream_, sent, 1, DType::i32).front();
  if (!sends_) {
    TROUPE_ASSERT(received.shape == own.shape);
    device_.ops().copy(*stream_, received, own);
  }
  stream_->synchronize();
}

}  // namespace troupe::actors
