#include "tensor/parallel/communication_time.h"

#include <fmt/format.h>

#include "tensor/error.h"

namespace troupe::tensor {

Bytes communication_volume(const CommunicationShape& shape, int shards) {
  constexpr double kAllReducesPerLayer = 4;  // two in the forward, two in the backward
  const double activations = static_cast<double>(shape.batch) * static_cast<double>(shape.seq_len) *
                             static_cast<double>(shape.hidden) *
                             static_cast<double>(shape.bytes_per_element);
  const double ring = 2.0 * (shards - 1) / shards;
  return {kAllReducesPerLayer * static_cast<double>(shape.layers) * activations * ring};
}

Seconds estimate_communication_time(const CommunicationShape& shape, int shards,
                                    BytesPerSecond bandwidth) {
  if (!(bandwidth.count > 0)) {
    throw Error(ErrorKind::manifest, fmt::format("a bandwidth of {} bytes a second; it must be "
                                                 "more than 0",
                                                 bandwidth.count));
  }
  return Seconds(communication_volume(shape, shards).count / bandwidth.count);
}

}  // namespace troupe::tensor
