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

/// Decimals beyond which a label names a power of ten instead.
constexpr int kMostDecimals = 5;

/// Ends that are a little apart even if all values are the same.
void part(double& low, double& high) {
  if (high > low) return;
  if (low == 0) {  // nothing tells how large a value would be
    high = 1;
    return;
  }
  const double margin = std::max(1e-300, std::abs(low) * 0.05);
  low -= margin;
  high += margin;
}

/// An axis from `low` to `high` with ticks at multiples of `distance`.
Axis ticked(double low, double high, double distance) {
  Axis axis{.low = low, .high = high, .ticks = {}};
  const double first = std::ceil(low / distance - 1e-9) + 0.0;  // no -0
  const double last = std::floor(high / distance + 1e-9);
  for (double tick = first; tick <= last; ++tick) axis.ticks.push_back(tick * distance);
  return axis;
}

/// The power of ten of a number's first digit.
int power_of(double number) {
  return static_cast<int>(std::floor(std::log10(number) + 1e-9));
}

}  // namespace

std::vector<Point> placeable(std::vector<Point> points, Scale scale) {
  std::erase_if(points, [&](const Point& p) {
    return !std::isfinite(p.y) || (scale == Scale::logarithmic && p.y <= 0);
  });
  return points;
}

double Axis::share(double value) const {
  if (scale == Scale::linear) return (value - low) / (high - low);
  return std::log(value / low) / std::log(high / low);
}

Axis rounded_axis(double low, double high, int num_ticks) {
  part(low, high);
  const double distance = distance_of_ticks(high - low, num_ticks);
  return ticked(distance * std::floor(low / distance + 1e-9),
                distance * std::ceil(high / distance - 1e-9), distance);
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
  return ticked(low, high, distance_of_ticks(high - low, num_ticks));
}

Axis counting_axis(double low, double high, int num_ticks) {
  part(low, high);
  return ticked(low, high, std::max(1.0, distance_of_ticks(high - low, num_ticks)));
}

std::vector<std::string> labels_of(const Axis& axis) {
  double distance = axis.high - axis.low, largest = 0;
  if (axis.ticks.size() > 1) distance = axis.ticks[1] - axis.ticks[0];
  for (const double tick : axis.ticks) largest = std::max(largest, std::abs(tick));
  const int decimals = std::max(0, -power_of(distance));
  const auto label = [&](double tick) -> std::string {
    if (decimals == 0) return grouped(std::llround(tick));
    if (decimals <= kMostDecimals) return fmt::format("{:.{}f}", tick, decimals);
    const int digits = std::max(0, power_of(largest) - power_of(distance));
    return tick == 0 ? "0" : fmt::format("{:.{}e}", tick, digits);
  };
  std::vector<std::string> labels;
  for (const double tick : axis.ticks) labels.push_back(label(tick));
  return labels;
}

}  // namespace troupe::launch
