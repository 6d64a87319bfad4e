#include "launch/screen/panes.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "schedules/plan/counted.h"

// What several panes have, and the keys.

namespace troupe::launch {
namespace {

struct KeyHint {
  const char* keys;
  const char* what;
};

/// In the order in which they stand; the last ones are left out first.
std::vector<KeyHint> hints(bool frozen) {
  return {
      {"q", "quit"},      {"?", "help"},   {"Tab", "pane"}, {"\u2191\u2193", "scroll"},
      {"Enter", "large"}, {"f", "filter"}, {"l", "log"},    {"Space", frozen ? "go on" : "freeze"}};
}

constexpr std::array kHelp{
    KeyHint{"q, Ctrl-C", "leave; the run goes on"},
    KeyHint{"Tab, Shift-Tab, \u2190 \u2192", "the next pane, the one before"},
    KeyHint{"\u2191 \u2193, k j, Page, Home, End", "scroll the pane with the mark \u25b6"},
    KeyHint{"Enter, Esc", "this pane large, and back"},
    KeyHint{"f, F", "events of the next kind alone, of the one before"},
    KeyHint{"l", "loss on a logarithmic scale, and back"},
    KeyHint{"Space", "freeze the picture, and go on"},
    KeyHint{"? or h", "this help; any key closes it"},
    KeyHint{"", ""},
    KeyHint{"\u25cf \u25cc \u25cb \u00d7", "a rank computes, waits, starts, is lost"},
    KeyHint{"\u2588\u2588\u2588\u2591\u2591", "its busy share of the newest step"},
    KeyHint{"F0\u203a\u203a  B0\u2039\u2039", "forward and backward of microbatch 0"},
    KeyHint{"I0--  W0==", "gradient of the input, of the weights"},
    KeyHint{"F1B0xx", "both at the same time"},
    KeyHint{"\u00b7\u00b7\u00b7\u00b7", "the rank waits for a message; blank: nothing to do"},
};

}  // namespace

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

void draw_keys(Canvas canvas, bool frozen, std::uint64_t missed) {
  int end = canvas.width();
  if (missed > 0) {
    const std::string text =
        schedules::counted(static_cast<std::int64_t>(missed), "event") + " missed";
    canvas.text_before(end, 0, text, {.look = Look::waiting});
    end -= columns_of(text) + 2;
  }
  int x = 0;
  for (const KeyHint& hint : hints(frozen)) {
    if (x + columns_of(hint.keys) + 1 + columns_of(hint.what) > end) return;
    x = canvas.text(x, 0, hint.keys, {.look = Look::live, .bold = true}) + 1;
    x = canvas.text(x, 0, hint.what) + 2;
  }
}

void draw_help(const Canvas& canvas) {
  Canvas inner = titled(canvas, "keys and signs", "", {.focused = true});
  int width = 0;
  for (const KeyHint& hint : kHelp) width = std::max(width, columns_of(hint.keys));
  for (int y = 0; y < std::ssize(kHelp); ++y) {
    const KeyHint& hint = kHelp[static_cast<std::size_t>(y)];
    inner.text(0, y, hint.keys, {.look = Look::live, .bold = true});
    inner.text(width + 2, y, hint.what);
  }
}

}  // namespace troupe::launch
