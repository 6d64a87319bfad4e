#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <vector>

#include "tensor/device/device.h"

namespace troupe::actors {

/// Seconds of the steady clock.
inline double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

/// When the pieces of a step's actions ran, measured where they run. A piece is what is queued on
/// one stream between begin() and end(). Used by the compute thread alone. Makes events in the
/// first steps only.
class ActionClock {
 public:
  /// A piece that belongs to no action, such as the packing of weights.
  static constexpr std::size_t kNoAction = static_cast<std::size_t>(-1);

  struct Piece {
    std::size_t action = kNoAction;
    double queued_s = 0;  ///< of the steady clock: when the host began to queue it
    double begin_s = 0;   ///< of the steady clock, once read() was called
    double end_s = 0;     ///< of the steady clock, once read() was called
    double waited_s = 0;  ///< time within the piece in which the host stood still
    double seconds() const { return end_s - begin_s; }
  };

  /// `device` outlives the clock.
  explicit ActionClock(tensor::Device& device) : device_(device) {}

  /// Forgets the pieces of the step before.
  void clear() { pieces_.clear(); }
  void begin(std::size_t action, tensor::Stream& stream);
  /// Ends the piece that began last, and returns its number.
  std::size_t end(tensor::Stream& stream, double waited_s = 0);

  /// The pieces in the order in which they began. All of them have run.
  const std::vector<Piece>& read();
  /// The time in which at least one piece ran, without what they waited for. After read().
  double busy_s() const;

 private:
  struct Marks {
    std::unique_ptr<tensor::Event> begin, end;
  };

  tensor::Device& device_;
  std::vector<Marks> marks_;
  std::vector<Piece> pieces_;
  mutable std::vector<std::size_t> order_;  // scratch memory of busy_s()
};

}  // namespace troupe::actors
