#include "stages/corpus/tokenizers/models/bpe_merger.h"

#include <algorithm>

namespace troupe::stages {
namespace {

constexpr std::int32_t kNone = -1;

}  // namespace

void BpeMerger::merge(std::vector<std::int32_t>& ids, const MergeTable& table) {
  link(ids);
  heap_.clear();
  for (std::int32_t left = 0; left + 1 < std::ssize(tokens_); ++left)
    if (const auto candidate = candidate_at(left, table)) heap_.push_back(*candidate);
  num_candidates_ += std::ssize(heap_);
  std::make_heap(heap_.begin(), heap_.end(), later);
  while (!heap_.empty()) {
    std::pop_heap(heap_.begin(), heap_.end(), later);
    const Candidate best = heap_.back();
    heap_.pop_back();
    // A stale candidate; that another pair may have come to make the same token is as in
    // tokenizers.
    const auto now = candidate_at(best.left, table);
    if (!now || now->id != best.id) continue;
    join(best.left, best.id);
    push(tokens_[static_cast<std::size_t>(best.left)].previous, table);
    push(best.left, table);
  }
  ids.clear();
  for (const Token& token : tokens_)
    if (token.id != kNone) ids.push_back(token.id);
}

void BpeMerger::link(const std::vector<std::int32_t>& ids) {
  tokens_.clear();
  for (std::int32_t i = 0; i < std::ssize(ids); ++i)
    tokens_.push_back({.id = ids[static_cast<std::size_t>(i)], .previous = i - 1, .next = i + 1});
  if (!tokens_.empty()) tokens_.back().next = kNone;
}

std::optional<BpeMerger::Candidate> BpeMerger::candidate_at(std::int32_t left,
                                                            const MergeTable& table) {
  const Token& token = tokens_[static_cast<std::size_t>(left)];
  if (token.id == kNone || token.next == kNone) return std::nullopt;
  const auto merge = table.find(token.id, tokens_[static_cast<std::size_t>(token.next)].id);
  if (!merge) return std::nullopt;
  return Candidate{.rank = merge->rank, .left = left, .id = merge->id};
}

void BpeMerger::push(std::int32_t left, const MergeTable& table) {
  if (left == kNone) return;
  const auto candidate = candidate_at(left, table);
  if (!candidate) return;
  heap_.push_back(*candidate);
  std::push_heap(heap_.begin(), heap_.end(), later);
  ++num_candidates_;
}

void BpeMerger::join(std::int32_t left, std::int32_t id) {
  Token& token = tokens_[static_cast<std::size_t>(left)];
  Token& right = tokens_[static_cast<std::size_t>(token.next)];
  if (right.next != kNone) tokens_[static_cast<std::size_t>(right.next)].previous = left;
  token.id = id;
  token.next = right.next;
  right.id = kNone;
}

}  // namespace troupe::stages
