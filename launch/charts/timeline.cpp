#include "launch/charts/timeline.h"

#include <array>
#include <cmath>
#include <map>

#include "launch/charts/plot.h"

namespace troupe::launch {
namespace {

constexpr double kRow = 22;
constexpr double kPlaces = 400;    // marks of one of so many places become one
constexpr double kLetter = 0.009;  // share of a page's width that a letter takes

struct MarkLook {
  const char* path;
  const char* look;  ///< its classes in style.css
};
/// By Strip::Look.
constexpr std::array kMarks{MarkLook{"M-4 -4L4 4M4 -4L-4 4", "mark cross"},
                            MarkLook{"M0 -5L5 4L-5 4Z", "mark change"},
                            MarkLook{"M0 -6L0 6", "mark saved"}};

std::string span_at(const Axis& x, const Span& span, double top) {
  const double from = x.share(span.from), width = x.share(span.to) - from;
  std::string out = box_at({{"class", "span"}}, from, width, top + 3, kRow - 6, hint(span.text));
  if (width > kLetter * static_cast<double>(span.text.size()))
    out += element("svg", {{"x", percent(from)}, {"y", number(top)}, {"class", "point"}},
                   text_element("text", {{"x", "6"}, {"y", "15"}, {"class", "label"}}, span.text));
  return out;
}

std::string marks_of(const Axis& x, const Strip& strip, double middle) {
  std::map<double, std::string> places;
  for (const Mark& mark : strip.marks) {
    std::string& text = places[std::round(x.share(mark.x) * kPlaces) / kPlaces];
    text += (text.empty() ? "" : "\n") + mark.text;
  }
  std::string out;
  const MarkLook& mark = kMarks[static_cast<std::size_t>(strip.look)];
  for (const auto& [share, text] : places)
    out += at_point(share, middle,
                    element("path", {{"class", mark.look}, {"d", mark.path}}, hint(text)));
  return out;
}

}  // namespace

std::string draw_timeline(const std::string& label, const Axis& x,
                          const std::vector<Strip>& strips) {
  Plot drawn{.label = label, .height = kRow * static_cast<double>(strips.size()) + 4};
  for (std::size_t i = 0; i < strips.size(); ++i) {
    const double top = kRow * static_cast<double>(i);
    drawn.names += name_at(top + kRow / 2 + 4, strips[i].name);
    drawn.canvas += grid_line(top + kRow / 2);
    for (const Span& span : strips[i].spans) drawn.canvas += span_at(x, span, top);
    drawn.canvas += marks_of(x, strips[i], top + kRow / 2);
  }
  return plot(drawn);
}

}  // namespace troupe::launch
