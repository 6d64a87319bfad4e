#include <algorithm>
#include <array>
#include <cmath>

#include "schedules/drawing/draw.h"
#include "schedules/plan/counted.h"

namespace troupe::schedules {
namespace {

// Sizes in pixels, and shares of a colour.
constexpr double kSlotWidth = 26;
constexpr double kMostWidth = 12000;  ///< of all slots together; longer plans get narrower slots
constexpr double kRow = 26;
constexpr double kBox = 22;
constexpr double kLeft = 64;
constexpr double kTop = 44;
constexpr double kLegendRow = 18;
constexpr double kSwatch = 12;
constexpr double kLetter = 6.5;   ///< a letter of the legend; letters of usual fonts are narrower
constexpr double kLabelled = 18;  ///< a box at least this wide shows its microbatch
constexpr double kPalest = 0.45;  ///< share of the colour that the last of many chunks has
constexpr double kPale = 0.75;    ///< below this share black text is easier to read than white
constexpr const char* kIdleColour = "#eeeeee";

/// The look of one kind of action and its name in the legend.
struct Style {
  Op op;
  const char* name;
  const char* colour;
};
constexpr std::array kStyles = {
    Style{Op::F, "F forward", "#4e79a7"}, Style{Op::B, "B backward", "#59a14f"},
    Style{Op::I, "I input gradient", "#f28e2b"}, Style{Op::W, "W weight gradient", "#b07aa1"}};

std::string attributes(double x, double y, double width, double height) {
  return concat("x='", x, "' y='", y, "' width='", width, "' height='", height, "'");
}

std::string text_at(double x, double y, const char* anchor, const std::string& text) {
  return concat("<text x='", x, "' y='", y, "' text-anchor='", anchor, "'>", text, "</text>\n");
}

std::string swatch(double x, double y, const char* colour, double opacity) {
  return concat("<rect ", attributes(x, y, kSwatch, kSwatch), " fill='", colour, "' fill-opacity='",
                opacity, "'/>\n");
}

/// Distance from the left end of a text in the legend to what follows the text.
double room_for(const std::string& text) {
  return kLetter * static_cast<double>(text.size()) + kSwatch;
}

/// Units from one mark of the axis to the next: 1, 2 or 5 times a power of ten, so that marks lie
/// at least 40 pixels apart.
double units_per_mark(double pixels_per_unit) {
  for (double step = std::pow(10, std::floor(std::log10(40 / pixels_per_unit)));; step *= 10) {
    for (const int factor : {1, 2, 5}) {
      if (step * factor * pixels_per_unit >= 40) return step * factor;
    }
  }
}

/// Places of the picture, from the plan's size and the simulated times.
class Canvas {
 public:
  Canvas(const Plan& plan, const Simulation& simulation, Axis axis)
      : plan_(plan),
        simulation_(simulation),
        slot_(slot_length(simulation)),
        slots_(simulation.wall / slot_),
        slot_width_(std::min(kSlotWidth, kMostWidth / std::max(slots_, 1.0))),
        axis_(axis) {}

  std::string draw() {
    const std::string legend_text = legend();
    const double width = std::max(kLeft + slots_ * slot_width_ + 20, legend_width_);
    const double height = bottom() + 44;
    std::string out = concat("<svg xmlns='http://www.w3.org/2000/svg' width='", width, "' height='",
                             height, "' viewBox='0 0 ", width, " ", height,
                             "' font-family='sans-serif' font-size='11'>\n"
                             "<rect width='100%' height='100%' fill='white'/>\n",
                             legend_text, axis());
    for (int rank = 0; rank < plan_.num_ranks(); ++rank) out += row(rank);
    return out + "</svg>\n";
  }

 private:
  double x(double time) const { return kLeft + time / slot_ * slot_width_; }
  double top() const { return kTop + (rounds() > 1 ? kLegendRow : 0); }
  double y(int rank) const { return top() + rank * kRow; }
  double bottom() const { return y(plan_.num_ranks()); }

  /// Number of rounds over the ranks, of which each gives a rank one chunk.
  int rounds() const { return (plan_.num_chunks() + plan_.num_ranks() - 1) / plan_.num_ranks(); }
  double opacity(int round) const { return 1 - (1 - kPalest) * round / rounds(); }

  std::string legend() {
    std::string out;
    double left = kLeft;
    const auto add = [&](const std::string& name, const char* colour) {
      out += swatch(left, 14, colour, 1) + text_at(left + kSwatch + 5, 24, "start", name);
      left += kSwatch + 5 + room_for(name);
    };
    for (const Style& style : kStyles) add(style.name, style.colour);
    add("idle", kIdleColour);
    legend_width_ = left;
    return rounds() > 1 ? out + shades() : out;
  }

  std::string shades() {
    const std::string name = "a rank's chunks, the first to the last";
    std::string out;
    double left = kLeft;
    for (int round = 0; round < rounds(); ++round, left += kSwatch)
      out += swatch(left, 14 + kLegendRow, colour_of(Op::F), opacity(round));
    legend_width_ = std::max(legend_width_, left + 5 + room_for(name));
    return out + text_at(left + 5, 24 + kLegendRow, "start", name);
  }

  std::string axis() const {
    std::string out;
    const double unit = axis_ == Axis::slots ? slot_ : 1;
    const double step = units_per_mark(slot_width_ / slot_ * unit);
    for (int mark = 0; mark * step * unit <= simulation_.wall * (1 + 1e-9); ++mark) {
      const double at = x(mark * step * unit);
      out += concat("<line x1='", at, "' x2='", at, "' y1='", top() - 4, "' y2='", bottom() + 4,
                    "' stroke='#dddddd'/>\n",
                    text_at(at, bottom() + 17, "middle", concat(mark * step)));
    }
    const std::string title = axis_ == Axis::slots ? concat("slots of ", slot_) : "time";
    return out + text_at(kLeft, bottom() + 34, "start",
                         concat(title, "; bubble rate ",
                                std::round(simulation_.bubble_rate * 1e4) / 1e4));
  }

  std::string row(int rank) const {
    std::string out = concat(text_at(kLeft - 8, y(rank) + 15, "end", concat("rank ", rank)),
                             "<rect ", attributes(kLeft, y(rank), slots_ * slot_width_, kBox),
                             " fill='", kIdleColour, "'/>\n");
    for (std::size_t i = 0; i < plan_.actions[rank].size(); ++i) {
      const bool second = i > 0 && plan_.actions[rank][i - 1].overlaps_next;
      const Action& action = plan_.actions[rank][i];
      const bool half = action.overlaps_next || second;
      const double height = half ? kBox / 2 : kBox;
      out += box(y(rank) + (second ? height : 0), height, action, simulation_.times[rank][i]);
    }
    return out;
  }

  std::string box(double top, double height, const Action& action,
                  const Simulation::Span& span) const {
    const double width = x(span.end) - x(span.start);
    const double shade = opacity(action.chunk / plan_.num_ranks());
    std::string out = concat("<g><title>", to_string(action), ", ", span.start, " to ", span.end,
                             "</title><rect ", attributes(x(span.start), top, width, height),
                             " fill='", colour_of(action.op), "' fill-opacity='", shade,
                             "' stroke='white' stroke-width='0.5'/>");
    if (width >= kLabelled)
      out += concat("<text x='", x(span.start) + width / 2, "' y='", top + height / 2 + 4,
                    "' text-anchor='middle' fill='", shade < kPale ? "black" : "white", "'>",
                    action.microbatch, "</text>");
    return out + "</g>\n";
  }

  const Plan& plan_;
  const Simulation& simulation_;
  double slot_;
  double slots_;
  double slot_width_;
  double legend_width_ = 0;
  Axis axis_;
};

}  // namespace

const char* colour_of(Op op) {
  return std::ranges::find_if(kStyles, [op](const Style& style) { return style.op == op; })->colour;
}

std::string to_svg(const Plan& plan, const Simulation& simulation, Axis axis) {
  return Canvas(plan, simulation, axis).draw();
}

}  // namespace troupe::schedules
