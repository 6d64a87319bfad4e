#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/emulated_grid/fault.h"

namespace troupe::emulated_grid {

inline constexpr unsigned kWarp = 32;

/// What a thread has seen of its warp: for each lane, the number of that lane's accesses that are
/// known to have happened, because a __syncwarp() of both came after them.
using WarpClock = std::array<std::uint32_t, kWarp>;

/// Who accesses an element of a shared array, and when.
struct Access {
  unsigned thread = 0;         ///< within the block
  unsigned configuration = 0;  ///< number of barriers that the block has passed
  const WarpClock* clock = nullptr;
};

/// A static shared array of one block, at first full of 0xff (NaN). Every access is checked for
/// its bounds, and for a race: two accesses of one element by two threads, one of them a write,
/// between which there was neither a barrier of the block nor a __syncwarp() of both. Found in
/// whatever order the two happen to run.
class SharedMemory {
 public:
  SharedMemory(std::string name, Place place, const char* type, std::size_t size, long long n);

  /// Whether it is the array declared by this line for this type and length.
  bool is(const Place& place, const char* type, long long n) const;
  std::size_t bytes() const { return bytes_.size(); }
  /// The element's bytes, for the thread to read or to write. Throws Fault.
  const std::byte* read(long long i, const Access& access);
  std::byte* write(long long i, const Access& access);

 private:
  /// The accesses of one element since the block's last barrier.
  struct Log {
    unsigned configuration = 0;
    bool written = false;
    bool many_readers = false;  // of several warps
    bool read = false;
    unsigned writer = 0, reader = 0;  // threads
    std::uint32_t written_at = 0;     // by the writer's own clock
    WarpClock read_at{};              // by the clocks of the reader's warp; 0: not read
  };

  Log& log_of(long long i, const Access& access);
  void check_not_after_write(long long i, const Log& log, const Access& access,
                             const char* what) const;
  void check_not_after_read(long long i, const Log& log, const Access& access) const;
  [[noreturn]] void race(long long i, unsigned first, const char* did, unsigned second,
                         const char* does) const;

  const std::string name_;
  const Place place_;
  const char* const type_;
  const std::size_t size_;
  const long long n_;
  std::vector<std::byte> bytes_;
  std::vector<Log> logs_;
};

}  // namespace troupe::emulated_grid
