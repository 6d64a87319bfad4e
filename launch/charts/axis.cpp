#include "launch/charts/axis.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "launch/host/quantities.h"

namespace troupe::launch {
namespace {

/// The smallest of 1, 2 and 5 times a power of ten that divides `width` into at most `num_ticks`.
double distance_of_ticks(double width, int num_ticks) {
  const double least = width / num_ticks;
  const double power = std::pow(10, std::floor(std::log10(least)));
  for (const int factor : {1, 2, 5})
    if (factor * power >= least * (1 - 1e-9)) return factor * power;
  return 10 * power;
}

/// Ends that are a little apart even if all values are the same.
void part(double& low, double& high) {
  if (high > low) return;
  const double margin = std::max(1e-9, std::abs(low) * 0.05);
  low -= margin;
  high += margin;
}

}  // namespace

double Axis::share(double value) const {
  if (scale == Scale::linear) return (value - low) / (high - low);
  return std::log(value / low) / std::log(high / low);
}

Axis rounded_axis(double low, double high, int num_ticks) {
  part(low, high);
  const double distance = distance_of_ticks(high - low, num_ticks);
  const double first = std::floor(low / distance + 1e-9), last = std::ceil(high / distance - 1e-9);
  Axis axis{.low = first * distance, .high = last * distance, .ticks = {}};
  for (double tick = first; tick <= last; ++tick) axis.ticks.push_back(tick * distance);
  return axis;
}

Axis logarithmic_axis(double low, double high, int num_ticks) {
  part(low, high);
  if (high < 10 * low) {
    Axis axis = rounded_axis(low, high, num_ticks);
    std::erase_if(axis.ticks, [](double tick) { return tick <= 0; });
    axis.low = std::min(low, axis.ticks.front());
    axis.scale = Scale::logarithmic;
    return axis;
  }
  const double decades = std::log10(high / low);
  Axis axis{.low = low, .high = high, .ticks = {}, .scale = Scale::logarithmic};
  for (double power = std::pow(10, std::floor(std::log10(low))); power <= high; power *= 10)
    for (const int factor : {1, 2, 5})
      if (factor == 1 || 3 * decades <= num_ticks) axis.ticks.push_back(factor * power);
  std::erase_if(axis.ticks, [&](double tick) { return tick < low || tick > high; });
  return axis;
}

Axis exact_axis(double low, double high, int num_ticks) {
  part(low, high);
  const double distance = distance_of_ticks(high - low, num_ticks);
  Axis axis{.low = low, .high = high, .ticks = {}};
  const double first = std::ceil(low / distance - 1e-9) + 0.0;  // no -0
  const double last = std::floor(high / distance + 1e-9);
  for (double tick = first; tick <= last; ++tick) axis.ticks.push_back(tick * distance);
  return axis;
}

std::vector<std::string> labels_of(const Axis& axis) {
  double distance = axis.high - axis.low;
  if (axis.ticks.size() > 1) distance = axis.ticks[1] - axis.ticks[0];
  const int decimals = std::max(0, -static_cast<int>(std::floor(std::log10(distance) + 1e-9)));
  std::vector<std::string> labels;
  for (const double tick : axis.ticks)
    labels.push_back(decimals == 0 ? grouped(std::llround(tick))
                                   : fmt::format("{:.{}f}", tick, decimals));
  return labels;
}

}  // namespace troupe::launch
