#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "launch/screen/panes.h"

namespace troupe::launch {
namespace {

/// Columns between the labels of the steps, and rows between those of the loss.
constexpr int kStepTick = 14, kLossTick = 3;
constexpr int kLeastCurveColumns = 10, kLeastCurveRows = 2;  // of the curve

/// The lines of a loss chart and their axes.
struct Chart {
  std::vector<Point> raw, smooth, evaluations;
  Axis steps = {}, loss = {};
};

Chart chart_of(const RunNow& run, Scale scale, int columns, int rows) {
  Curve curve = run.loss.curve();
  Chart chart{.raw = placeable(std::move(curve.raw), scale),
              .smooth = placeable(std::move(curve.smooth), scale),
              .evaluations = placeable(evaluation_points(run.evaluations), scale)};
  if (chart.raw.empty()) return chart;
  chart.steps =
      counting_axis(chart.raw.front().x - 1, chart.raw.back().x, std::max(1, columns / kStepTick));
  double low = std::numeric_limits<double>::infinity(), high = -low;
  for (const auto* points : {&chart.raw, &chart.evaluations})
    for (const Point& p : *points) {
      low = std::min(low, p.y);
      high = std::max(high, p.y);
    }
  const int ticks = std::max(3, rows / kLossTick);
  chart.loss =
      scale == Scale::linear ? exact_axis(low, high, ticks) : logarithmic_axis(low, high, ticks);
  return chart;
}

/// Where a share of the way from the first of `places` to the last one lies.
int place_of(double share, int places) {
  return static_cast<int>(std::lround(std::clamp(share, 0.0, 1.0) * (places - 1)));
}

Dots dots_of(const std::vector<Point>& points, const Chart& chart, int columns, int rows) {
  Dots dots(columns, rows);
  int before_x = -1, before_y = -1;
  for (const Point& p : points) {
    const int x = place_of(chart.steps.share(p.x), dots.width());
    const int y = place_of(1 - chart.loss.share(p.y), dots.height());
    if (before_x < 0)
      dots.set(x, y);
    else
      dots.line(before_x, before_y, x, y);
    before_x = x;
    before_y = y;
  }
  return dots;
}

/// Draws a line's dots over what is there; a character has one look, and so one line.
void draw_dots(Canvas& plot, const Dots& dots, Style style) {
  for (int y = 0; y < plot.height(); ++y)
    for (int x = 0; x < plot.width(); ++x)
      if (const char32_t glyph = dots.glyph(x, y)) plot.put(x, y, {.glyph = glyph, .style = style});
}

void draw_curve(Canvas plot, const Chart& chart) {
  draw_dots(plot, dots_of(chart.raw, chart, plot.width(), plot.height()), {.look = Look::raw});
  draw_dots(plot, dots_of(chart.smooth, chart, plot.width(), plot.height()),
            {.look = Look::smooth, .bold = true});
  for (const Point& p : chart.evaluations)
    plot.put(place_of(chart.steps.share(p.x), plot.width()),
             place_of(1 - chart.loss.share(p.y), plot.height()),
             {.glyph = U'\u25c6', .style = {.look = Look::evaluation, .bold = true}});
}

/// The loss at the left, as wide as its labels. Returns the columns it takes.
int draw_loss_axis(Canvas canvas, const Axis& axis, int rows) {
  const auto labels = labels_of(axis);
  int width = 0;
  for (const std::string& label : labels) width = std::max(width, columns_of(label));
  for (int y = 0; y < rows; ++y)
    canvas.put(width, y, {.glyph = U'\u2502', .style = {.look = Look::soft}});
  for (std::size_t i = 0; i < labels.size(); ++i) {
    const int y = place_of(1 - axis.share(axis.ticks[i]), rows);
    canvas.fill(0, width, y, {});
    canvas.text_before(width, y, labels[i], {.look = Look::soft});
    canvas.put(width, y, {.glyph = U'\u2524', .style = {.look = Look::soft}});
  }
  return width + 1;
}

}  // namespace

int draw_loss(const Canvas& canvas, const RunNow& run, const PaneView& view) {
  const bool log = view.scale == Scale::logarithmic;
  std::string detail = "bold: smoothed";
  if (!run.evaluations.empty()) detail += "  \u25c6 evaluation";
  Canvas inner = titled(canvas, log ? "loss, logarithmic" : "loss", detail, view);
  const int rows = inner.height() - 1;
  const Chart chart = chart_of(run, view.scale, inner.width(), rows);
  if (chart.raw.empty()) {
    inner.text(0, 0, cut("The curve begins with the first step.", inner.width()),
               {.look = Look::soft});
    return 0;
  }
  if (rows < kLeastCurveRows || inner.width() < kLeastCurveColumns) return 0;
  const int left = draw_loss_axis(inner, chart.loss, rows);
  const int columns = inner.width() - left;
  if (columns < kLeastCurveColumns) return 0;
  draw_curve(inner.part({left, 0, columns, rows}), chart);
  draw_axis(inner.part({left, rows, columns, 1}), chart.steps, labels_of(chart.steps), columns - 1);
  return 0;
}

}  // namespace troupe::launch
