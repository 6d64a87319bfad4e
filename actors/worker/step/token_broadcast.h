#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "tensor/device/device.h"
#include "tensor/parallel/data_broadcast.h"

namespace troupe::actors {

/// Gives the tokens that the first shard of a stage has read to the other shards ([data] reader =
/// "first-shard"). Used by the compute thread alone.
class TokenBroadcast {
 public:
  /// Device and group outlive this object.
  TokenBroadcast(tensor::Device& device, tensor::ProcessGroup& shards);
  /// Sends the first shard's data of a step; fills those of the others, which are as many. Every
  /// shard calls it between the same collectives of the group. Allocates in its first call alone.
  /// Throws Error{unavailable} if the group ends.
  void run(std::span<std::int32_t> data);

 private:
  tensor::Device& device_;
  const bool sends_;
  const std::unique_ptr<tensor::Stream> stream_;
  tensor::DataBroadcast broadcast_;
};

}  // namespace troupe::actors
