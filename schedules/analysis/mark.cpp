#include <algorithm>

#include "schedules/analysis/rules.h"
#include "schedules/plan/counted.h"

namespace troupe::schedules {

std::string mark(const Plan& plan, int rank, int index) {
  constexpr int kAround = 6;
  const std::vector<Action>& order = plan.actions[rank];
  const int size = static_cast<int>(order.size());
  const int first = std::max(index - kAround, 0);
  const int last = std::min(index + kAround, std::max(index, size - 1));
  std::string line = concat("rank ", rank, "  ", first > 0 ? "... " : "");
  std::string marks;
  for (int i = first; i <= last; ++i) {
    const std::string cell = i < size ? to_string(order[i]) : "(end)";
    if (i == index) marks = std::string(line.size(), ' ') + std::string(cell.size(), '^');
    line += cell + ' ';
  }
  line += last + 1 < size ? "..." : "";
  while (line.back() == ' ') line.pop_back();
  return line + '\n' + marks + '\n';
}

std::string name(const Plan& plan, int rank, int index) {
  return concat(to_string(plan.actions[rank][index]), " of rank ", rank);
}

Violation violation(const Plan& plan, std::string_view rule, int rank, int index,
                    std::string message) {
  return {.rule = std::string(rule),
          .rank = rank,
          .index = index,
          .message = std::move(message),
          .grid = mark(plan, rank, index)};
}

}  // namespace troupe::schedules
