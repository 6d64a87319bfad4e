#include "actors/agent/clock_meter.h"

#include <algorithm>
#include <limits>

namespace troupe::actors {

void ClockMeter::add(const RoundTrip& trip) {
  trips_.push_back(trip);
  if (trips_.size() > kWindow) trips_.pop_front();
  const auto [least, most] = bounds(trip.back_s);
  if (least > most) trips_ = {trip};
}

ClockMeter::Bounds ClockMeter::bounds(double now_s) const {
  Bounds bounds{.least = -std::numeric_limits<double>::infinity(),
                .most = std::numeric_limits<double>::infinity()};
  for (const RoundTrip& trip : trips_) {
    // The bounds are of the time when it was answered, which may be as early as it was sent.
    const double drift_s = kDrift * std::max(0.0, now_s - trip.sent_s);
    bounds.least = std::max(bounds.least, trip.sent_s - trip.there_s - drift_s);
    bounds.most = std::min(bounds.most, trip.back_s - trip.there_s + drift_s);
  }
  return bounds;
}

std::optional<ClockAhead> ClockMeter::ahead(double now_s) const {
  if (trips_.empty()) return std::nullopt;
  const auto [least, most] = bounds(now_s);
  return ClockAhead{.seconds = (least + most) / 2, .error_s = (most - least) / 2};
}

}  // namespace troupe::actors
