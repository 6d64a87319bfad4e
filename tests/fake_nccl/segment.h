#pragma once

#include <nccl.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace troupe::fake_nccl {

inline constexpr int kMostRanks = 16;

/// Bytes on their way from one rank to another. One writes and one reads.
struct Ring {
  static constexpr std::size_t kBytes = std::size_t{1} << 16;

  /// The most of `bytes` that there is room for, and that are there. Each returns how many.
  std::size_t write(const std::byte* from, std::size_t bytes);
  std::size_t read(std::byte* to, std::size_t bytes);
  bool is_empty() const { return written == taken; }

  std::atomic<std::uint64_t> written, taken;
  std::array<std::byte, kBytes> bytes;
};

/// A kernel that a rank has launched, and those of other communicators that have the GPU before it:
/// of each that is not 0 the id, and the number of its last kernel.
struct LaunchState {
  static constexpr std::size_t kMostAhead = 4;
  std::atomic<std::uint64_t> number;  ///< among the kernels of its communicator, from 1
  std::array<std::atomic<std::uint64_t>, kMostAhead> ahead, ahead_kernel;
};

/// What the others see of a rank.
struct RankState {
  std::atomic<bool> has_joined;
  std::atomic<std::uint64_t> begun;      ///< kernels that have begun
  std::array<LaunchState, 64> launches;  ///< by number
};

/// The shared memory of a communicator, which is as large as its ranks use it.
struct Segment {
  std::uint64_t id;
  std::array<RankState, kMostRanks> ranks;
  std::array<std::array<Ring, kMostRanks>, kMostRanks> rings;  ///< by sender and receiver
};

/// What a unique id holds. The memory has no name: it is a descriptor of the process that made the
/// id, and ends with the last process that has it, however that ends.
struct Id {
  std::uint64_t id;
  int process, descriptor;
};
static_assert(sizeof(Id) <= NCCL_UNIQUE_ID_BYTES);

/// Null if there is no memory.
Segment* make_segment(ncclUniqueId& id);
/// Null if the process that made it has ended.
Segment* open_segment(const ncclUniqueId& id);
void close_segment(Segment* segment, const ncclUniqueId& id);

}  // namespace troupe::fake_nccl
