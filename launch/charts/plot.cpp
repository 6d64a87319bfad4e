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

std::string at_point(double share, double y, std::string_view shapes) {
  return element("svg", {{"class", "point"}, {"x", percent(share)}, {"y", number(y)}}, shapes);
}

std::string hint(std::string_view text) {
  return text_element("title", {}, text);
}

}  // namespace troupe::launch
