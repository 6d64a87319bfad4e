#pragma once

#include <string>
#include <vector>

#include "launch/charts/curve.h"

namespace troupe::launch {

enum class Scale { linear, logarithmic };

/// The points that have a place on an axis of this scale: finite ones, and above 0 on a logarithmic
/// one.
std::vector<Point> placeable(std::vector<Point> points, Scale scale);

/// An axis of a chart.
struct Axis {
  double low = 0;   ///< above 0 if it is logarithmic
  double high = 1;  ///< above low
  std::vector<double> ticks;
  Scale scale = Scale::linear;

  /// Where a value lies, from 0 at low to 1 at high.
  double share(double value) const;
};

/// An axis that has all values from `low` to `high`, whose ticks are about `num_ticks` multiples of
/// 1, 2 or 5 times a power of ten; its ends are the outermost ticks.
Axis rounded_axis(double low, double high, int num_ticks);
/// A logarithmic axis that has all values from `low`, which is above 0, to `high`. Its ticks are 1,
/// 2 and 5 times powers of ten, or, within one power, as those of a linear axis.
Axis logarithmic_axis(double low, double high, int num_ticks);
/// An axis whose ends are `low` and `high` themselves, with ticks between them.
Axis exact_axis(double low, double high, int num_ticks);
/// An exact axis of things that are counted, as steps: its ticks are whole numbers.
Axis counting_axis(double low, double high, int num_ticks);

/// The ticks' labels, each with as many decimals as tell them apart: "2.25", "12,000", and
/// "1.5e-07" where that would be too many.
std::vector<std::string> labels_of(const Axis& axis);

}  // namespace troupe::launch
