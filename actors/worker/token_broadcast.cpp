#include "actors/worker/token_broadcast.h"

#include <array>

#include "tensor/error.h"
#include "tensor/ops.h"

namespace troupe::actors {

using tensor::DType;
using tensor::Tensor;

namespace {

Tensor view_of(std::span<std::int32_t> tokens) {
  return {tokens.data(), DType::i32, {static_cast<std::int64_t>(tokens.size())}};
}

}  // namespace

TokenBroadcast::TokenBroadcast(tensor::Device& device, tensor::ProcessGroup& shards)
    : device_(device),
      sends_(shards.member() == 0),
      stream_(device.make_stream()),
      broadcast_(device, shards) {}

void TokenBroadcast::run(std::span<std::int32_t> ids, std::span<std::int32_t> targets) {
  const std::array own{view_of(ids), view_of(targets)};
  const std::span<const Tensor> data = sends_ ? std::span<const Tensor>(own) : std::span<Tensor>();
  const auto received = broadcast_.run(*stream_, data, own.size(), DType::i32);
  if (!sends_)
    for (std::size_t i = 0; i < own.size(); ++i) {
      TROUPE_ASSERT(received[i].shape == own[i].shape);
      device_.ops().copy(*stream_, received[i], own[i]);
    }
  stream_->synchronize();
}

}  // namespace troupe::actors
