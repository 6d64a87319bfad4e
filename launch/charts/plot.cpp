#include "launch/charts/plot.h"

namespace troupe::launch {

std::string plot(const Plot& plot) {
  const std::string height = number(plot.height);
  return element(
      "div", {{"class", "plot"}, {"role", "img"}, {"aria-label", plot.label}},
      element("svg", {{"class", "names"}, {"width", number(kNames + 8)}, {"height", height}},
              plot.names) +
          element("svg", {{"class", "canvas"}, {"height", height}}, plot.canvas));
}

std::string label_at(double share, double y, std::string_view look, std::string_view text) {
  return text_element(
      "text", {{"x", percent(share)}, {"y", number(y)}, {"class", std::string(look)}}, text);
}

std::string name_at(double y, std::string_view text) {
  return text_element("text", {{"x", number(kNames)}, {"y", number(y)}, {"text-anchor", "end"}},
                      text);
}

std::string x_ticks(const Axis& axis, double bottom) {
  std::string out;
  const auto labels = labels_of(axis);
  for (std::size_t i = 0; i < axis.ticks.size(); ++i) {
    const double share = axis.share(axis.ticks[i]);
    out += element("line", {{"class", "tick"},
                            {"x1", percent(share)},
                            {"x2", percent(share)},
                            {"y1", number(bottom)},
                            {"y2", number(bottom + 4)}});
    const std::string place = share < 0.03 ? "start" : share > 0.97 ? "end" : "middle";
    out += label_at(share, bottom + 16, place + (i % 2 == 1 ? " second" : ""), labels[i]);
  }
  return out;
}

std::string stretched(double height, std::string_view paths) {
  return element("svg",
                 {{"width", "100%"},
                  {"height", number(height)},
                  {"viewBox", "0 0 " + number(kColumns) + " " + number(height)},
                  {"preserveAspectRatio", "none"}},
                 paths);
}

std::string box_at(Attributes look, double from, double width, double y, double height,
                   std::string_view content) {
  look.insert(look.end(), {{"x", percent(from)},
                           {"width", percent(width)},
                           {"y", number(y)},
                           {"height", number(height)}});
  return element("rect", look, content);
}

std::string grid_line(double y) {
  return element(
      "line",
      {{"class", "grid"}, {"x1", "0"}, {"x2", "100%"}, {"y1", number(y)}, {"y2", number(y)}});
}

std::string at_point(double share, double y, std::string_view shapes) {
  return element("svg", {{"class", "point"}, {"x", percent(share)}, {"y", number(y)}}, shapes);
}

std::string hint(std::string_view text) {
  return text_element("title", {}, text);
}

std::string legend_item(std::string_view shape, std::string_view name) {
  return element(
      "li", {},
      element("svg", {{"width", "26"}, {"height", "12"}, {"aria-hidden", "true"}}, shape) +
          escaped(name));
}

}  // namespace troupe::launch
