#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

namespace troupe::actors {

/// Notices that a count no longer grows.
class Standstill {
 public:
  using Clock = std::chrono::steady_clock;
  explicit Standstill(Clock::duration limit) : limit_(limit) {}

  /// Whether `count` has had this value for at least the limit; true once until it changes.
  bool observe(std::uint64_t count, Clock::time_point now) {
    if (count != count_ || !since_) {
      count_ = count;
      since_ = now;
      is_told_ = false;
    }
    if (is_told_ || now - *since_ < limit_) return false;
    return is_told_ = true;
  }

 private:
  const Clock::duration limit_;
  std::uint64_t count_ = 0;
  std::optional<Clock::time_point> since_;
  bool is_told_ = false;
};

}  // namespace troupe::actors
