#pragma once

#include <string>

namespace troupe::launch {

/// Times as people read them: in the time zone of this machine, whose name goes with them. All
/// times that one object writes are as far from UTC, even if the clocks were changed between them.
/// Times are in Unix seconds; one that no calendar has is written as "-".
class LocalTime {
 public:
  /// The zone as it is at this moment.
  explicit LocalTime(double at);
  /// "UTC+01:00"; "UTC" where both are the same.
  std::string zone() const;
  std::string date(double time) const;   ///< "2026-01-31 12:00:00"
  std::string clock(double time) const;  ///< "12:00:00"

 private:
  long ahead_s_ = 0;  // of UTC
};

/// This moment in Unix seconds.
double unix_seconds();

/// A moment with its zone: "2026-01-31 12:00:00 UTC+01:00".
std::string time_text(double time);

}  // namespace troupe::launch
