#include "schedules/generators/v_slots.h"

#include <algorithm>
#include <deque>

namespace troupe::schedules {
namespace {

constexpr int kPeriod = 6;

}  // namespace

VSlots::VSlots(const Block& block, int microbatches) {
  for (int row = 0; row < kRows; ++row) {
    slots_[row].resize(microbatches);
    for (int k = 0; k < microbatches; ++k) put(row, k, block[row] + kPeriod * k);
  }
}

int VSlots::backward_slot(int k) const {
  int seen = -1;
  int slot = -1;
  while (seen < k) seen += is_backward(++slot) ? 1 : 0;
  return slot;
}

bool VSlots::try_move(int row, int k, int slot, int cap) {
  const int old = slots_[row][k];
  taken_[old] = kFree;
  put(row, k, slot);
  if (peak() <= cap) return true;
  taken_[slot] = kFree;
  put(row, k, old);
  return false;
}

void VSlots::clear() {
  taken_.clear();
}

void VSlots::put(int row, int k, int slot) {
  if (slot >= static_cast<int>(taken_.size())) taken_.resize(slot + 1, kFree);
  taken_[slot] = static_cast<char>(row);
  slots_[row][k] = slot;
}

void VSlots::add_weights() {
  std::vector<int> weights;
  int waiting = 0;
  const auto size = static_cast<int>(taken_.size());
  for (int slot = 0; slot < size || waiting > 0; ++slot) {
    if (slot < size && is_backward(slot)) ++waiting;
    if (!is_free(slot) || waiting == 0) continue;
    --waiting;
    weights.push_back(slot);
  }
  slots_[kWeights].resize(weights.size());
  for (std::size_t k = 0; k < weights.size(); ++k) put(kWeights, static_cast<int>(k), weights[k]);
}

void VSlots::drop_weights() {
  for (const int slot : slots_[kWeights]) taken_[slot] = kFree;
  slots_[kWeights].clear();
  while (!taken_.empty() && taken_.back() == kFree) taken_.pop_back();
}

int VSlots::peak() const {
  const bool has_weights = !slots_[kWeights].empty();
  int live = 0;
  int most = 0;
  int waiting = 0;
  for (const char row : taken_) {
    if (row == kF0 || row == kF1) most = std::max(most, ++live);
    if (row == kI1 || row == kI0) ++waiting;
    if (row == kWeights || (row == kFree && !has_weights && waiting > 0)) {
      --waiting;
      --live;
    }
  }
  return most;
}

std::vector<Action> VSlots::order(std::array<int, 2> chunks) const {
  struct Which {
    int row = 0;
    int k = 0;
  };
  std::vector<Which> at(taken_.size());
  for (int row = 0; row < kRows; ++row) {
    for (int k = 0; k < size(row); ++k) at[slots_[row][k]] = {row, k};
  }
  std::vector<Action> out;
  std::array<std::deque<int>, 2> waiting;  // microbatches, by chunk of the rank
  const auto place_w = [&] {
    const int c = waiting[1].empty() ? 0 : 1;
    if (waiting[c].empty()) return;
    out.push_back({chunks[c], Op::W, waiting[c].front()});
    waiting[c].pop_front();
  };
  for (std::size_t slot = 0; slot < taken_.size(); ++slot) {
    if (taken_[slot] == kFree) {
      place_w();
      continue;
    }
    const auto [row, k] = at[slot];
    const int c = row == kF0 || row == kI0 ? 0 : 1;
    const bool forward = row == kF0 || row == kF1;
    out.push_back({chunks[c], forward ? Op::F : Op::I, k});
    if (!forward) waiting[c].push_back(k);
  }
  while (!waiting[0].empty() || !waiting[1].empty()) place_w();
  return out;
}

}  // namespace troupe::schedules
