#include <algorithm>
#include <cmath>

#include "schedules/drawing/draw.h"
#include "schedules/plan/counted.h"

namespace troupe::schedules {
namespace {

/// Text cells of one width, filled from the left.
class Row {
 public:
  Row(std::string title, int width) : text_(std::move(title)), width_(width) {}

  int size() const { return size_; }
  void add(std::string_view cell) {
    text_ += ' ';
    text_ += cell;
    text_.append(width_ - cell.size(), ' ');
    ++size_;
  }
  void pad(std::string_view cell, int until) {
    while (size_ < until) add(cell);
  }
  std::string finish() {
    text_.erase(text_.find_last_not_of(' ') + 1);
    return std::move(text_) + '\n';
  }

 private:
  std::string text_;
  int width_;
  int size_ = 0;
};

std::string label(const Plan& plan, const Action& action) {
  const std::string full = to_string(action);
  return plan.num_chunks() > plan.num_ranks() ? full : full.substr(full.find_first_of("FBIW"));
}

int longest_label(const Plan& plan) {
  std::size_t longest = 1;
  for (const std::vector<Action>& order : plan.actions) {
    for (const Action& action : order) longest = std::max(longest, label(plan, action).size());
  }
  return static_cast<int>(longest);
}

std::string title(const std::string& text, std::size_t width) {
  return text + std::string(width - text.size(), ' ');
}

}  // namespace

double slot_length(const Simulation& simulation) {
  double shortest = 0;
  for (const std::vector<Simulation::Span>& times : simulation.times) {
    for (const auto& [start, end] : times) {
      if (end > start && (shortest == 0 || end - start < shortest)) shortest = end - start;
    }
  }
  return shortest > 0 ? shortest : 1;
}

std::string to_grid(const Plan& plan, const Simulation& simulation) {
  const double slot = slot_length(simulation);
  const int width = longest_label(plan);
  const std::size_t title_width = concat("rank ", plan.num_ranks() - 1).size();
  const auto column = [&](double time) { return static_cast<int>(std::lround(time / slot)); };

  std::string body;
  int columns = 0;
  for (int rank = 0; rank < plan.num_ranks(); ++rank) {
    Row row(title(concat("rank ", rank), title_width), width);
    for (std::size_t i = 0; i < plan.actions[rank].size(); ++i) {
      const auto& [start, end] = simulation.times[rank][i];
      row.pad(".", column(start));
      row.add(label(plan, plan.actions[rank][i]));
      if (!plan.actions[rank][i].overlaps_next) row.pad("-", column(end));
    }
    row.pad(".", column(simulation.wall));
    columns = std::max(columns, row.size());
    body += row.finish();
  }
  Row axis(title("slot", title_width), std::max(width, 1));
  for (int i = 0; i < columns; ++i) {
    const std::string number = std::to_string(i);
    axis.add(static_cast<int>(number.size()) <= width ? number : "");
  }
  return axis.finish() + body;
}

}  // namespace troupe::schedules
