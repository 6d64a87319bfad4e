#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include "launch/charts/axis.h"
#include "launch/host/quantities.h"
#include "launch/screen/panes.h"

namespace troupe::launch {
namespace {

using schedules::Op;

constexpr int kBusyColumns = 6;         // " 100 %"
constexpr int kLeastActionColumns = 8;  // of the actions
constexpr double kNoticed = 0.1;        // the share of a character that an action must fill
constexpr int kTimeTick = 14;           // columns between labels of the time

/// How an action looks: the ground of its box, and the character behind its name, by which it is
/// known without colours.
struct ActionLook {
  Op op;
  Look look;
  char32_t fill;
  const char* name;
};
constexpr std::array kKinds{ActionLook{Op::F, Look::forward, U'\u203a', "F forward"},
                            ActionLook{Op::B, Look::backward, U'\u2039', "B backward"},
                            ActionLook{Op::I, Look::input_gradient, U'-', "I input"},
                            ActionLook{Op::W, Look::weight_gradient, U'=', "W weight"}};
constexpr char32_t kWait = U'\u00b7', kPair = U'x';

const ActionLook& kind_of(Op op) {
  return *std::ranges::find(kKinds, op, &ActionLook::op);
}

/// What fills a character of a row most.
struct Slot {
  int action = -1;  ///< index; -1: none
  int other = -1;   ///< another one that runs at the same time; -1: none
  bool waits = false;
};

/// The share of character `x` of `columns` that a span of time takes.
double share_of(double begin_s, double end_s, double length_s, int columns, int x) {
  const double from = begin_s / length_s * columns, to = end_s / length_s * columns;
  return std::max(0.0, std::min(to, x + 1.0) - std::max<double>(from, x));
}

std::vector<Slot> slots_of(const RankRow& row, double length_s, int columns) {
  std::vector<Slot> slots(static_cast<std::size_t>(columns));
  std::vector<double> most(slots.size());
  const auto over = [&](double begin_s, double end_s, const auto& visit) {
    const int from = static_cast<int>(begin_s / length_s * columns);
    const int to = static_cast<int>(std::ceil(end_s / length_s * columns));
    for (int x = std::max(0, from); x < std::min(to, columns); ++x)
      visit(static_cast<std::size_t>(x), share_of(begin_s, end_s, length_s, columns, x));
  };
  for (std::size_t i = 0; i < row.actions.size(); ++i) {
    const TimedAction& a = row.actions[i];
    over(a.begin_s, a.end_s, [&](std::size_t x, double share) {
      Slot& slot = slots[x];
      if (slot.action >= 0) {
        const TimedAction& b = row.actions[static_cast<std::size_t>(slot.action)];
        const double from = std::max(a.begin_s, b.begin_s), to = std::min(a.end_s, b.end_s);
        if (share_of(from, to, length_s, columns, static_cast<int>(x)) >= kNoticed)
          slot.other = static_cast<int>(i);
      }
      if (share < kNoticed || share <= most[x]) return;
      most[x] = share;
      slot.action = static_cast<int>(i);
    });
    if (const auto begin = row.wait_begin_s(i))
      over(*begin, a.begin_s, [&](std::size_t x, double share) { slots[x].waits |= share >= 0.5; });
  }
  return slots;
}

std::string name_of(const schedules::Action& action) {
  return fmt::format("{}{}", static_cast<char>(action.op), action.microbatch);
}

/// Draws the slots from `begin` to `end`, which belong to one action, or to two at the same time.
/// The last ones are waits, as many as its waits for collectives take, whenever those were.
void draw_box(Canvas& canvas, int y, int begin, int end, const RankRow& row, const Slot& slot) {
  const TimedAction& timed = row.actions[static_cast<std::size_t>(slot.action)];
  const ActionLook& kind = kind_of(timed.action.op);
  std::string name = name_of(timed.action);
  if (slot.other >= 0) name += name_of(row.actions[static_cast<std::size_t>(slot.other)].action);
  const Look look = slot.other >= 0 ? Look::pair : kind.look;
  canvas.fill(begin, end, y,
              {.glyph = slot.other >= 0 ? kPair : kind.fill, .style = {.look = look}});
  const int room = end - begin;
  const int waits = static_cast<int>(std::lround(timed.collective_share() * room));
  if (slot.other < 0)
    canvas.fill(end - waits, end, y, {.glyph = kWait, .style = {.look = Look::waiting}});
  canvas.text(begin, y, columns_of(name) <= room ? name : name.substr(0, 1),
              {.look = look, .bold = true});
}

void draw_row(Canvas canvas, int y, const RankRow& row, double length_s) {
  const auto slots = slots_of(row, length_s, canvas.width());
  const auto at = [&](int x) { return slots[static_cast<std::size_t>(x)]; };
  for (int x = 0; x < canvas.width();) {
    int end = x + 1;
    while (end < canvas.width() && at(end).action == at(x).action && at(end).other == at(x).other)
      ++end;
    if (at(x).action >= 0)
      draw_box(canvas, y, x, end, row, at(x));
    else
      for (int i = x; i < end; ++i)
        if (at(i).waits) canvas.put(i, y, {.glyph = kWait, .style = {.look = Look::waiting}});
    x = end;
  }
}

void draw_time_axis(const Canvas& row, double length_s) {
  const Axis axis = exact_axis(0, 1e3 * length_s, std::max(1, row.width() / kTimeTick));
  auto labels = labels_of(axis);
  if (!labels.empty()) labels.back() += " ms";
  draw_axis(row, axis, labels, row.width());
}

/// A picture of ranks' rows with their names at the left and their busy shares at the right.
class Rows {
 public:
  Rows(const Canvas& canvas, double length_s, int most_rank)
      : canvas_(canvas),
        length_s_(length_s),
        word_(canvas.width() >= 50 ? "rank " : ""),
        left_(columns_of(word_) + columns_of(std::to_string(most_rank)) + 1),
        columns_(canvas.width() - left_ - kBusyColumns) {}

  bool fits() const { return columns_ >= kLeastActionColumns; }
  /// A row; `whole_s` is what its busy share is of.
  void draw(int y, const RankRow& row, double whole_s) {
    canvas_.text(0, y, word_ + std::to_string(row.rank), {.look = Look::soft});
    draw_row(canvas_.part({left_, 0, columns_, canvas_.height()}), y, row, length_s_);
    canvas_.text_before(canvas_.width(), y, fmt::format("{:.0f} %", 100 * row.busy_s() / whole_s));
  }
  void draw_axis(int y) { draw_time_axis(canvas_.part({left_, y, columns_, 1}), length_s_); }

 private:
  Canvas canvas_;
  const double length_s_;
  const std::string word_;
  const int left_, columns_;
};

/// What the picture is of, and its signs.
std::string detail_of(const StepPicture& picture) {
  std::string text =
      fmt::format("step {}: {}", grouped(picture.step), span_text(picture.measured_s()));
  for (const ActionLook& kind : kKinds)
    if (has_action(picture.measured, kind.op)) text.append("  ").append(kind.name);
  return text + "  \u00b7 waits";
}

/// Whether the rows of what the simulator expects have room below the measured ones.
bool has_room_for_expectation(const Canvas& canvas, const StepPicture& picture) {
  const auto words = std::ssize(wrapped(in_words(picture), canvas.width()));
  return !picture.predicted.empty() &&
         std::ssize(picture.measured) + words + std::ssize(picture.predicted) + 2 <=
             canvas.height();
}

/// What the simulator expects, below the measured rows, as far as there is room.
void draw_expectation(Canvas canvas, const StepPicture& picture, Rows& rows, int y,
                      bool with_rows) {
  for (const std::string& line : wrapped(in_words(picture), canvas.width()))
    canvas.text(0, y++, line, {.look = Look::soft});
  if (!with_rows) return;
  canvas.text(0, y++, "as the simulator expects it:", {.look = Look::soft});
  for (const RankRow& row : picture.predicted) rows.draw(y++, row, picture.predicted_s());
}

}  // namespace

int draw_step(const Canvas& canvas, const RunNow& run, const PaneView& view) {
  if (!run.picture) {
    Canvas inner = titled(canvas, "last step", "", view);
    inner.text(0, 0, cut("A step is recorded while somebody looks.", inner.width()),
               {.look = Look::soft});
    return 0;
  }
  const StepPicture& picture = *run.picture;
  Canvas inner = titled(canvas, "last step", detail_of(picture), view);
  const bool expects = has_room_for_expectation(inner, picture);
  // What is not drawn takes no place on the axis.
  const double length_s = std::max(picture.measured_s(), expects ? picture.predicted_s() : 0);
  Rows rows(inner, length_s, std::ranges::max_element(picture.measured, {}, &RankRow::rank)->rank);
  const int count = static_cast<int>(picture.measured.size());
  if (!rows.fits() || inner.height() < 1) return 0;
  const int most = std::max(0, count - inner.height());
  const int first = std::min(view.scroll, most);
  int y = 0;
  for (int i = first; i < count && y < inner.height(); ++i)
    rows.draw(y++, picture.measured[static_cast<std::size_t>(i)], picture.measured_s());
  if (y < inner.height()) rows.draw_axis(y++);
  if (y < inner.height()) draw_expectation(inner, picture, rows, y, expects);
  return most;
}

}  // namespace troupe::launch
