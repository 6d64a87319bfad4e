#include "schedules/generators/v_blocks.h"

#include <algorithm>

#include "schedules/generators/v_slots.h"

namespace troupe::schedules {
namespace {

/// The slots of all ranks, and the moves that squeeze them.
class Squeeze {
 public:
  Squeeze(const std::vector<Block>& blocks, int microbatches)
      : p_(static_cast<int>(blocks.size())), m_(microbatches) {
    for (const Block& block : blocks) ranks_.emplace_back(block, m_);
  }

  /// Pass 1 moves actions while every W has its slot. The part between the first I of chunk 0 and
  /// the last F of chunk 0 on rank 0 repeats, and stays.
  void move_with_weights() {
    for (VSlots& rank : ranks_) rank.add_weights();
    move_all(ranks_[0].slot(kI0, 0));
    start_early();
    for (VSlots& rank : ranks_) rank.drop_weights();
  }

  /// Pass 2 moves actions without regard to W, which then get the next free slots; the warm-up
  /// stays too.
  void move_without_weights() {
    move_all(0);
    for (VSlots& rank : ranks_) rank.add_weights();
    start_early();
    for (VSlots& rank : ranks_) rank.drop_weights();
  }

  std::vector<std::vector<Action>> orders() const {
    std::vector<std::vector<Action>> out;
    for (int r = 0; r < p_; ++r) out.push_back(ranks_[r].order({r, 2 * p_ - 1 - r}));
    return out;
  }

 private:
  struct Item {
    int slot, rank, row, k;
    auto operator<=>(const Item&) const = default;
  };

  /// All actions in the order of their slots.
  std::vector<Item> items() const {
    std::vector<Item> all;
    for (int r = 0; r < p_; ++r)
      for (int row = 0; row <= kWeights; ++row)
        for (int k = 0; k < ranks_[r].size(row); ++k)
          all.push_back({ranks_[r].slot(row, k), r, row, k});
    std::ranges::sort(all);
    return all;
  }

  /// Moves every action that lies before slot `first`, or after the last F of chunk 0 on rank 0, to
  /// the earliest slot it can have.
  void move_all(int first) {
    int cap = 0;
    for (const VSlots& rank : ranks_) cap = std::max(cap, rank.peak());
    const int last = ranks_[0].slot(kF0, m_ - 1);
    for (const Item& item : items()) {
      if (item.slot >= first && item.slot <= last) continue;
      VSlots& rank = ranks_[item.rank];
      for (int slot = earliest(item); slot < item.slot; ++slot) {
        if (rank.is_free(slot) && rank.try_move(item.row, item.k, slot, cap)) break;
      }
    }
  }

  /// The first slot after everything that the action needs: its input, and the actions before it on
  /// its rank.
  int earliest(const Item& item) const {
    const VSlots& rank = ranks_[item.rank];
    if (item.row == kWeights) return rank.backward_slot(item.k) + 1;
    int after = item.row > 0 ? rank.slot(item.row - 1, item.k) : -1;
    if (item.k > 0) after = std::max(after, rank.slot(item.row, item.k - 1));
    const bool from_before = item.row == kF0 || item.row == kI1;
    const int neighbour = from_before ? item.rank - 1 : item.rank + 1;
    if (neighbour >= 0 && neighbour < p_) {
      after = std::max(after, ranks_[neighbour].slot(item.row, item.k));
    }
    return after + 1;
  }

  /// Replaces slots by the earliest start times of the orders that they are in.
  void start_early() {
    // The input of an action lies in an earlier slot, so in the order of slots every input already
    // has its new place.
    const std::vector<Item> all = items();
    std::vector<int> clock(p_, 0);
    for (VSlots& rank : ranks_) rank.clear();
    for (const Item& item : all) {
      const int start = std::max(clock[item.rank], item.row == kWeights ? 0 : earliest(item));
      ranks_[item.rank].put(item.row, item.k, start);
      clock[item.rank] = start + 1;
    }
  }

  int p_, m_;
  std::vector<VSlots> ranks_;
};

}  // namespace

std::vector<std::vector<Action>> squeezed(const std::vector<Block>& blocks, int microbatches) {
  Squeeze squeeze(blocks, microbatches);
  squeeze.move_with_weights();
  squeeze.move_without_weights();
  return squeeze.orders();
}

}  // namespace troupe::schedules
