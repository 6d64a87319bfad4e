#include "launch/charts/line_chart.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "launch/charts/plot.h"

namespace troupe::launch {
namespace {

constexpr double kTop = 8;      // pixels above the highest value
constexpr double kBottom = 22;  // pixels below the lowest one, for the labels
constexpr double kTick = 36;    // least pixels from one tick to the next

/// Places of a chart's values in its picture.
class Canvas {
 public:
  explicit Canvas(const LineChart& chart) : chart_(chart), y_(y_axis(chart)) {}

  bool empty() const { return !(y_.high > y_.low); }

  std::string names() const {
    std::string out;
    const auto labels = labels_of(y_);
    for (std::size_t i = 0; i < y_.ticks.size(); ++i) out += name_at(y(y_.ticks[i]) + 4, labels[i]);
    return out;
  }

  std::string content() const {
    std::string out;
    for (const double tick : y_.ticks) out += grid_line(y(tick));
    out += x_ticks(chart_.x, bottom());
    std::string lines;
    for (const Series& series : chart_.series)
      if (series.shape == Series::Shape::line) lines += line(series);
    out += stretched(chart_.height, lines);
    for (const Series& series : chart_.series)
      if (series.shape == Series::Shape::points) out += points(series);
    return out + hints();
  }

 private:
  static Axis y_axis(const LineChart& chart) {
    double low = std::numeric_limits<double>::infinity(), high = -low;
    for (const Series& series : chart.series)
      for (const Point& p : placeable(series.points, chart.scale)) {
        low = std::min(low, p.y);
        high = std::max(high, p.y);
      }
    if (low > high) return Axis{.low = 0, .high = 0, .ticks = {}};
    if (chart.from_zero) {
      low = std::min(low, 0.0);
      high = std::max(high, 0.0);
    }
    const int num_ticks = static_cast<int>(chart.height / kTick);
    return chart.scale == Scale::linear ? rounded_axis(low, high, num_ticks)
                                        : logarithmic_axis(low, high, num_ticks);
  }

  double bottom() const { return chart_.height - kBottom; }
  double y(double value) const { return bottom() - y_.share(value) * (bottom() - kTop); }

  std::string line(const Series& series) const {
    std::string path;
    for (const Point& p :
         thinned(placeable(series.points, chart_.scale), static_cast<std::size_t>(kColumns)))
      path += (path.empty() ? "M" : "L") + number(kColumns * chart_.x.share(p.x)) + " " +
              number(y(p.y));
    if (series.points.size() == 1) path += "h0";  // a dot
    return path.empty() ? "" : element("path", {{"class", series.look}, {"d", path}});
  }

  std::string points(const Series& series) const {
    std::string out;
    for (const Point& p :
         thinned(placeable(series.points, chart_.scale), static_cast<std::size_t>(kColumns / 8)))
      out += at_point(chart_.x.share(p.x), y(p.y),
                      element("path", {{"class", series.look}, {"d", "M0 -4L4 0L0 4L-4 0Z"}},
                              hint(series.name + ": " + number(p.y) + " at " + number(p.x))));
    return out;
  }

  std::string hints() const {
    std::string out;
    for (const Hint& each : chart_.hints)
      out +=
          box_at({{"class", "hint"}}, chart_.x.share(each.from),
                 chart_.x.share(each.to) - chart_.x.share(each.from), 0, bottom(), hint(each.text));
    return out;
  }

  const LineChart& chart_;
  const Axis y_;
};

}  // namespace

std::string draw(const LineChart& chart) {
  const Canvas canvas(chart);
  if (canvas.empty()) return "";
  return plot({.label = chart.label,
               .height = chart.height,
               .names = canvas.names() + name_at(chart.height - 6, chart.x_name),
               .canvas = canvas.content()});
}

std::string legend(const std::vector<Series>& series) {
  std::string items;
  for (const Series& each : series) {
    const bool line = each.shape == Series::Shape::line;
    items += legend_item(element("path", {{"class", each.look},
                                          {"d", line ? "M1 6L25 6" : "M13 2L17 6L13 10L9 6Z"}}),
                         each.name);
  }
  return element("ul", {{"class", "legend"}}, items);
}

}  // namespace troupe::launch
