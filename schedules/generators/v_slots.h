#pragma once

#include <array>
#include <vector>

#include "schedules/generators/v_blocks.h"

namespace troupe::schedules {

/// The row after the four of a block holds W: its k-th entry belongs to the rank's k-th I.
constexpr int kWeights = kRows;

/// The slots of one rank's actions. No two actions share a slot.
class VSlots {
 public:
  VSlots(const Block& block, int microbatches);

  int size(int row) const { return static_cast<int>(slots_[row].size()); }
  int slot(int row, int k) const { return slots_[row][k]; }
  /// The slot of the rank's k-th I, counted over both chunks.
  int backward_slot(int k) const;
  bool is_free(int slot) const {
    return slot >= static_cast<int>(taken_.size()) || taken_[slot] == kFree;
  }

  /// Moves an action to a free slot if the rank's peak stays within `cap`.
  bool try_move(int row, int k, int slot, int cap);
  /// Forgets all slots, after which put() sets them one by one.
  void clear();
  void put(int row, int k, int slot);

  /// Gives each W the first free slot after its I, the oldest first.
  void add_weights();
  void drop_weights();
  /// Most chunk-microbatches that are held at once from F to W. If the W have no slots, the peak is
  /// what it would be after add_weights().
  int peak() const;

  /// The actions by slot, with W in free slots: chunk 1's before chunk 0's.
  std::vector<Action> order(std::array<int, 2> chunks) const;

 private:
  static constexpr char kFree = -1;
  bool is_backward(int slot) const { return taken_[slot] == kI1 || taken_[slot] == kI0; }

  std::array<std::vector<int>, kRows + 1> slots_;  ///< [row][k]
  std::vector<char> taken_;                        ///< by slot: the row of its action
};

}  // namespace troupe::schedules
