#pragma once

#include <chrono>
#include <cstdint>

namespace troupe::tensor {

/// A number of bytes, and bytes in a second; a link of 600 Gb/s is BytesPerSecond{75e9}.
struct Bytes {
  double count = 0;
};
struct BytesPerSecond {
  double count = 0;
};
using Seconds = std::chrono::duration<double>;

/// What of a transformer decides how much tensor parallelism communicates.
struct CommunicationShape {
  std::int64_t hidden = 0;   // channels of the residual stream
  std::int64_t seq_len = 0;  // tokens of a sequence
  std::int64_t batch = 0;    // sequences that pass the layers in the time that is asked for
  std::int64_t layers = 0;
  std::int64_t bytes_per_element = 2;
};

/// Bytes that each of `shards` shards sends for a forward and a backward: four all-reduces of all
/// activations a layer, each by a ring, which sends 2 (n - 1) / n of them (Patarasuk and Yuan,
/// 2009). With sequence parallelism a reduce-scatter and an all-gather take the place of each
/// all-reduce, with the same bytes, but for the two inputs a layer that the backward gathers again.
Bytes communication_volume(const CommunicationShape& shape, int shards);

/// The time that takes at `bandwidth`, the rate at which a shard sends; nothing overlaps. An
/// estimate for plans, from below: it knows no latency.
Seconds estimate_communication_time(const CommunicationShape& shape, int shards,
                                    BytesPerSecond bandwidth);

}  // namespace troupe::tensor
