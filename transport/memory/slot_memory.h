#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace troupe::transport {

/// Slots begin on cache lines, so that two messages never share one.
inline constexpr std::size_t kCacheLine = 64;

/// The bytes of the cache lines that so many bytes take.
constexpr std::size_t in_cache_lines(std::size_t bytes) {
  return (bytes + kCacheLine - 1) / kCacheLine * kCacheLine;
}

/// Names memory that another process on this host can map. The nonce tells it from any other memory
/// that has, or once had, the same id.
struct SegmentName {
  static constexpr std::int64_t kNone = -1;
  std::int64_t id = kNone;  ///< System V shared memory id
  std::uint64_t nonce = 0;
  bool operator==(const SegmentName&) const = default;
};

/// Memory of an edge's slots, at the receiver. Aligned to 64 bytes at least; fresh memory is zero.
class SlotMemory {
 public:
  virtual ~SlotMemory() = default;
  virtual std::byte* data() const = 0;
  virtual std::size_t bytes() const = 0;
  virtual SegmentName name() const = 0;
  /// Makes memory that senders had mapped ready for other senders; its bytes stay. False if a
  /// process still has it mapped and might write into it: it must not be used again then. A process
  /// that learns the old name() later cannot map it any more.
  virtual bool reclaim() = 0;
};

/// Slots of a receiver, mapped by a sender. They stay valid, whatever becomes of the receiver.
class MappedSlots {
 public:
  virtual ~MappedSlots() = default;
  virtual std::byte* data() const = 0;
};

std::unique_ptr<SlotMemory> make_private_slots(std::size_t bytes);
/// Shared memory that vanishes with the last process that uses it, however that ends; private
/// memory if the system gives none.
std::unique_ptr<SlotMemory> make_shared_slots(std::size_t bytes);
/// Maps a receiver's slots. Null if there is no such memory: the receiver is on another host, or
/// has given it back.
std::unique_ptr<MappedSlots> map_slots(const SegmentName& name, std::size_t bytes);

/// Memory of other members that this one has mapped to write into, each segment once. It stays
/// mapped, so that no later write has to wait for the system.
class MappedSegments {
 public:
  /// The segment's first byte. Null if it cannot be mapped, which is not tried again.
  std::byte* find(const SegmentName& name, std::size_t bytes);

 private:
  struct Mapping {
    SegmentName name;
    std::size_t bytes = 0;
    std::unique_ptr<MappedSlots> slots;
  };
  std::vector<Mapping> mappings_;
};

}  // namespace troupe::transport
