#include "launch/charts/stacked_bar.h"

#include "launch/charts/patterns.h"
#include "launch/charts/plot.h"

namespace troupe::launch {
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
