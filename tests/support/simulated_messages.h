#pragma once

#include <deque>
#include <functional>
#include <map>
#include <random>
#include <utility>
#include <vector>

namespace troupe::actors {

/// Messages on their way, each an action at its receiver, on lines that keep their order. Which
/// line moves next is chance, as is all that a simulation picks.
class SimMessages {
 public:
  explicit SimMessages(std::uint64_t seed) : rng_(seed) {}

  /// A number below n.
  int pick(int n) { return static_cast<int>(rng_() % static_cast<unsigned>(n)); }
  /// Delivers one waiting message, of any sender, in that sender's order.
  bool deliver_one() {
    std::vector<int> lines;
    for (const auto& [line, messages] : waiting_)
      if (!messages.empty()) lines.push_back(line);
    if (lines.empty()) return false;
    auto& line = waiting_[lines[static_cast<std::size_t>(pick(static_cast<int>(lines.size())))]];
    const auto action = std::move(line.front());
    line.pop_front();
    action();
    return true;
  }
  /// Loses all that is on its way.
  void lose_all() { waiting_.clear(); }
  template <typename Action>
  void later(int line, Action action) {
    waiting_[line].push_back(action);
  }

 private:
  std::mt19937_64 rng_;
  std::map<int, std::deque<std::function<void()>>> waiting_;
};

}  // namespace troupe::actors
