#include <algorithm>

#include "launch/screen/panes.h"

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

}  // namespace troupe::launch
