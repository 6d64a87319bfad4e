#include "schedules/plan/plan.h"

#include <map>
#include <set>

namespace troupe::schedules {
namespace {

/// The weight-gradients of one chunk: the microbatch that is due, and those held back until then.
struct WeightOrder {
  explicit WeightOrder(int first) : due(first) {}
  int due;
  std::multiset<int> held = {};
};

/// Sorts one rank's order: every weight-gradient keeps its place or moves back, so that those of a
/// chunk ascend.
class Sorter {
 public:
  explicit Sorter(const Plan& plan) : plan_(plan) {}

  void add(const Action& action) {
    if (action.op != Op::B && action.op != Op::W) {
      out_.push_back(action);
      return;
    }
    WeightOrder& chunk =
        chunks_.try_emplace(action.chunk, plan_.first_microbatch(action.chunk)).first->second;
    if (action.microbatch > chunk.due) {
      if (action.op == Op::B) out_.push_back({action.chunk, Op::I, action.microbatch});
      chunk.held.insert(action.microbatch);
      return;
    }
    out_.push_back(action);
    if (action.microbatch == chunk.due) ++chunk.due;
    release(action.chunk, chunk);
  }

  /// A plan that lacks microbatches keeps the actions that are still held back, for validate() to
  /// judge.
  std::vector<Action> finish() {
    for (const auto& [index, chunk] : chunks_) {
      for (const int microbatch : chunk.held) out_.push_back({index, Op::W, microbatch});
    }
    return std::move(out_);
  }

 private:
  void release(int index, WeightOrder& chunk) {
    while (!chunk.held.empty() && *chunk.held.begin() <= chunk.due) {
      const int microbatch = *chunk.held.begin();
      chunk.held.erase(chunk.held.begin());
      out_.push_back({index, Op::W, microbatch});
      if (microbatch == chunk.due) ++chunk.due;
    }
  }

  const Plan& plan_;
  std::map<int, WeightOrder> chunks_;
  std::vector<Action> out_;
};

}  // namespace

Purpose purpose_of(const Plan& plan) {
  for (const std::vector<Action>& order : plan.actions) {
    for (const Action& action : order) {
      if (action.op != Op::F) return Purpose::training;
    }
  }
  return Purpose::forward_only;
}

std::uint64_t digest(const Plan& plan) {
  std::uint64_t hash = 14695981039346656037u;
  for (const char letter : to_csv(plan)) {
    hash = (hash ^ static_cast<unsigned char>(letter)) * 1099511628211u;
  }
  return hash;
}

Plan in_order(Plan plan) {
  for (std::vector<Action>& order : plan.actions) {
    Sorter sorter(plan);
    for (const Action& action : order) sorter.add(action);
    order = sorter.finish();
  }
  return plan;
}

}  // namespace troupe::schedules
