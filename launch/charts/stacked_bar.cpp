#include "launch/charts/stacked_bar.h"

#include <array>

#include "launch/charts/plot.h"
#include "schedules/drawing/draw.h"

namespace troupe::launch {
namespace {

using schedules::Op;

constexpr const char* kRising = "M-1 1L1 -1M0 6L6 0M5 7L7 5";
constexpr const char* kFalling = "M-1 5L1 7M0 0L6 6M5 -1L7 1";
constexpr const char* kLevel = "M0 3L6 3";
constexpr const char* kUpright = "M3 0L3 6";
constexpr const char* kCross = "M0 3L6 3M3 0L3 6";

struct Lines {
  Op op;
  const char* path;
};
constexpr std::array kActions{Lines{Op::F, ""}, Lines{Op::B, kRising}, Lines{Op::I, kLevel},
                              Lines{Op::W, kUpright}};
// Lines of the parts p0 to p7 of style.css.
constexpr std::array kParts{"",       kRising, kLevel,         kUpright,
                            kFalling, kCross,  "M2.5 3L3.5 3", kRising};

std::string name_of(Op op) {
  return std::string("op") + static_cast<char>(op);
}

std::string name_of_part(std::size_t n) {
  return "part" + std::to_string(n % kParts.size());
}

/// A square of 6 pixels with lines over its ground.
std::string pattern(const std::string& id, Attributes ground, const char* path) {
  ground.insert(ground.end(), {{"width", "6"}, {"height", "6"}});
  const bool waits = id == "waiting";  // not over a colour, but over the page
  const std::string lines = element("path", {{"d", path},
                                             {"stroke", waits ? "#e69f00" : "#ffffff"},
                                             {"stroke-opacity", waits ? "0.9" : "0.45"},
                                             {"stroke-width", "1.2"}});
  return element("pattern",
                 {{"id", id}, {"width", "6"}, {"height", "6"}, {"patternUnits", "userSpaceOnUse"}},
                 element("rect", ground) + (*path == 0 ? "" : lines));
}

/// The fill of the n-th part of a bar.
std::string fill_of_part(std::size_t n) {
  return "url(#" + name_of_part(n) + ")";
}

}  // namespace

std::string fill_patterns() {
  std::string patterns;
  for (const Lines& lines : kActions)
    patterns += pattern(name_of(lines.op), {{"fill", schedules::colour_of(lines.op)}}, lines.path);
  for (std::size_t n = 0; n < kParts.size(); ++n)
    patterns += pattern(name_of_part(n), {{"class", "p" + std::to_string(n)}}, kParts[n]);
  patterns += pattern("waiting", {{"class", "idle"}}, kFalling);
  return element("svg",
                 {{"class", "patterns"}, {"width", "0"}, {"height", "0"}, {"aria-hidden", "true"}},
                 element("defs", {}, patterns));
}

std::string fill_of(Op op) {
  return "url(#" + name_of(op) + ")";
}

std::string stacked_bar(const std::string& label, const std::vector<BarPart>& parts, double whole) {
  std::string content, read = label + ":";
  double begin = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const BarPart& part = parts[i];
    if (!(part.value > 0)) continue;
    const std::string text = part.name + " " + part.text;
    content += element("rect",
                       {{"class", "part"},
                        {"fill", fill_of_part(i)},
                        {"x", percent(begin / whole)},
                        {"width", percent(part.value / whole)},
                        {"y", "0"},
                        {"height", "100%"}},
                       hint(text));
    read += " " + text + ",";
    begin += part.value;
  }
  read.back() = '.';
  return element("svg", {{"class", "bar"}, {"role", "img"}, {"aria-label", read}}, content);
}

std::string swatch(std::size_t n) {
  return element(
      "svg", {{"class", "swatch"}, {"width", "12"}, {"height", "12"}, {"aria-hidden", "true"}},
      element("rect",
              {{"class", "part"}, {"fill", fill_of_part(n)}, {"width", "12"}, {"height", "12"}}));
}

}  // namespace troupe::launch
