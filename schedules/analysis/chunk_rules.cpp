#include <algorithm>

#include "schedules/analysis/rules.h"
#include "schedules/plan/counted.h"

namespace troupe::schedules {
namespace {

constexpr int kNowhere = -1;

/// Checks SCHED-3 to SCHED-6 for the actions of one chunk.
class ChunkCheck {
 public:
  /// `indices`: the chunk's actions in the order of its rank.
  ChunkCheck(const Plan& plan, Purpose purpose, int chunk, const std::vector<int>& indices)
      : plan_(plan),
        purpose_(purpose),
        chunk_(chunk),
        rank_(plan.rank_of_chunk[chunk]),
        indices_(indices),
        first_(plan.first_microbatch(chunk)),
        // If there are fewer actions than microbatches, one of these first microbatches has none.
        places_(std::min<std::size_t>(plan.microbatches_per_copy(), indices.size() + 1)) {}

  std::optional<Violation> run() {
    for (const int index : indices_) {
      if (auto wrong = place(index)) return wrong;
    }
    for (int i = 0; i < static_cast<int>(places_.size()); ++i) {
      if (auto wrong = check_forward(i)) return wrong;
      if (purpose_ == Purpose::forward_only) continue;
      if (auto wrong = check_backward(i)) return wrong;
      if (auto wrong = check_before(places_[i].F, std::max(places_[i].B, places_[i].I)))
        return wrong;
      if (auto wrong = check_before(places_[i].I, places_[i].W)) return wrong;
    }
    return check_ascending();
  }

 private:
  /// Where the actions of one of the chunk's microbatches are, kNowhere for an action that is
  /// missing.
  struct Places {
    int F = kNowhere, B = kNowhere, I = kNowhere, W = kNowhere;
    int& of(Op op) { return op == Op::F ? F : op == Op::B ? B : op == Op::I ? I : W; }
  };

  Violation wrong(const char* rule, int index, std::string message) const {
    return violation(plan_, rule, rank_, index, std::move(message));
  }
  Violation missing(const char* rule, const std::string& what) const {
    return wrong(rule, static_cast<int>(plan_.actions[rank_].size()),
                 concat("rank ", rank_, " lacks ", what));
  }
  /// The text of an action of the chunk's i-th microbatch.
  std::string written(Op op, int i) const { return to_string({chunk_, op, first_ + i}); }

  /// Remembers where the action is. A violation if there are two of it, or if it is not allowed at
  /// all.
  std::optional<Violation> place(int index) {
    const Action& action = plan_.actions[rank_][index];
    if (purpose_ == Purpose::forward_only && action.op != Op::F) {
      return wrong("SCHED-4", index,
                   name(plan_, rank_, index) + " has no place in a plan that only runs forward");
    }
    const int i = action.microbatch - first_;
    if (i >= static_cast<int>(places_.size())) return {};
    int& place = places_[i].of(action.op);
    if (place != kNowhere) {
      return wrong(action.op == Op::F ? "SCHED-3" : "SCHED-4", index,
                   name(plan_, rank_, index) + " is there twice");
    }
    place = index;
    return {};
  }

  std::optional<Violation> check_forward(int i) const {
    if (places_[i].F == kNowhere) return missing("SCHED-3", written(Op::F, i));
    return {};
  }

  std::optional<Violation> check_backward(int i) const {
    const auto& [F, B, I, W] = places_[i];
    if (B != kNowhere && (I != kNowhere || W != kNowhere)) {
      return wrong("SCHED-4", std::max(I, W),
                   name(plan_, rank_, std::max(I, W)) + " repeats a part of " + written(Op::B, i));
    }
    if (B != kNowhere || (I != kNowhere && W != kNowhere)) return {};
    if (I != kNowhere)
      return missing("SCHED-4", written(Op::W, i) + ", the other half of " + written(Op::I, i));
    if (W != kNowhere)
      return missing("SCHED-4", written(Op::I, i) + ", the other half of " + written(Op::W, i));
    return missing("SCHED-4", written(Op::B, i));
  }

  std::optional<Violation> check_before(int first, int second) const {
    if (first < second || second == kNowhere) return {};
    return wrong(
        "SCHED-5", second,
        name(plan_, rank_, second) + " comes before its " + to_string(plan_.actions[rank_][first]));
  }

  std::optional<Violation> check_ascending() const {
    int due = first_;
    for (const int index : indices_) {
      const Action& action = plan_.actions[rank_][index];
      if (action.op != Op::B && action.op != Op::W) continue;
      if (action.microbatch != due) {
        return wrong(
            "SCHED-6", index,
            concat(name(plan_, rank_, index), " comes before the weight-gradient of microbatch ",
                   due, " (in_order() puts them in order)"));
      }
      ++due;
    }
    return {};
  }

  const Plan& plan_;
  Purpose purpose_;
  int chunk_;
  int rank_;
  const std::vector<int>& indices_;
  int first_;  ///< first microbatch of this chunk
  std::vector<Places> places_;
};

}  // namespace

std::optional<Violation> check_chunks(const Plan& plan, Purpose purpose) {
  std::vector<std::vector<int>> indices(plan.num_chunks());
  for (const std::vector<Action>& order : plan.actions) {
    for (int index = 0; index < static_cast<int>(order.size()); ++index) {
      indices[order[index].chunk].push_back(index);
    }
  }
  for (int chunk = 0; chunk < plan.num_chunks(); ++chunk) {
    if (auto wrong = ChunkCheck(plan, purpose, chunk, indices[chunk]).run()) return wrong;
  }
  return {};
}

}  // namespace troupe::schedules
