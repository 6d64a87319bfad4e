#pragma once

#include <cstdint>

namespace troupe::tensor {

struct Bytes {
  double count = 0;
};

/// What of a transformer decides how much tensor parallelism communicates.
struct CommunicationShape {
  std::int64_t hidden = 0;   // channels of the residual stream
  std::int64_t seq_len = 0;  // tokens of a sequence
  std::int64_t batch = 0;    // sequences that pass the layers in what is asked about
  std::int64_t layers = 0;
  std::int64_t bytes_per_element = 2;
};

/// Bytes that each of `shards` shards sends for a forward and a backward: four all-reduces of all
/// activations a layer, each by a ring, which sends 2 (n - 1) / n of them (Patarasuk and Yuan,
/// 2009). With sequence parallelism a reduce-scatter and an all-gather take the place of each
/// all-reduce, with the same bytes, but for the two inputs a layer that the backward gathers again.
inline Bytes communication_volume(const CommunicationShape& shape, int shards) {
  constexpr double kAllReducesPerLayer = 4;  // two in the forward, two in the backward
  const double activations = static_cast<double>(shape.batch) * static_cast<double>(shape.seq_len) *
                             static_cast<double>(shape.hidden) *
                             static_cast<double>(shape.bytes_per_element);
  const double ring = 2.0 * (shards - 1) / shards;
  return {kAllReducesPerLayer * static_cast<double>(shape.layers) * activations * ring};
}

}  // namespace troupe::tensor
