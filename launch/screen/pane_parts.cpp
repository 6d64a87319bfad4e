#include <algorithm>
#include <cmath>

#include "launch/screen/panes.h"

// What several panes have.

namespace troupe::launch {

Canvas titled(const Canvas& canvas, std::string_view title, std::string_view detail,
              const PaneView& view) {
  Canvas line = canvas.part({0, 0, canvas.width(), 1});
  const Style rule{.look = view.focused ? Look::live : Look::soft};
  line.fill(0, line.width(), 0, {.glyph = U'\u2500', .style = rule});
  if (view.focused) line.put(0, 0, {.glyph = U'\u25b6', .style = rule});
  int x = line.text(1, 0, " ");
  x = line.text(x, 0, title,
                {.look = rule.look == Look::soft ? Look::plain : rule.look, .bold = true});
  x = line.text(x, 0, " ");
  if (!detail.empty() && x + 3 < line.width())
    line.text(x + 2, 0, " " + cut(detail, line.width() - x - 4) + " ", {.look = Look::soft});
  return canvas.part({0, 1, canvas.width(), canvas.height() - 1});
}

void draw_axis(Canvas row, const Axis& axis, const std::vector<std::string>& labels, int last) {
  int free = 0;
  for (std::size_t i = 0; i < labels.size(); ++i) {
    const int width = columns_of(labels[i]);
    const int middle = static_cast<int>(std::lround(axis.share(axis.ticks[i]) * last));
    const int x = std::clamp(middle - width / 2, 0, std::max(0, row.width() - width));
    if (x >= free) free = row.text(x, 0, labels[i], {.look = Look::soft}) + 1;
  }
}

}  // namespace troupe::launch
