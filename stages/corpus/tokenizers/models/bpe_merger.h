#pragma once

#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

namespace troupe::stages {

/// Which pairs of neighbouring tokens become one token, and in which order.
class MergeTable {
 public:
  struct Merge {
    std::int32_t rank = 0;  ///< pairs of lower rank are merged first
    std::int32_t id = 0;    ///< the token that the pair becomes
  };
  /// A pair that was added before gets the new rank.
  void add(std::int32_t left, std::int32_t right, Merge merge) {
    merges_[key_of(left, right)] = merge;
  }
  std::optional<Merge> find(std::int32_t left, std::int32_t right) const {
    const auto found = merges_.find(key_of(left, right));
    return found == merges_.end() ? std::nullopt : std::optional(found->second);
  }
  void reserve(std::size_t merges) { merges_.reserve(merges); }

 private:
  static std::uint64_t key_of(std::int32_t left, std::int32_t right) {
    return static_cast<std::uint64_t>(left) << 32 | static_cast<std::uint32_t>(right);
  }
  std::unordered_map<std::uint64_t, Merge> merges_;
};

/// Merges pairs of tokens in the order of their ranks, and pairs of the same rank from left to
/// right. A heap of the pairs makes that O(n log n) for n tokens. Keeps its memory between calls;
/// used by one thread at a time.
class BpeMerger {
 public:
  /// Merges in place until no pair is left that the table has.
  void merge(std::vector<std::int32_t>& ids, const MergeTable& table);

  /// Number of pairs that were put on the heap in all calls: the work that was done.
  std::int64_t num_candidates() const { return num_candidates_; }

 private:
  /// Tokens are a doubly linked list; a token that was merged into the one before it has no id.
  struct Token {
    std::int32_t id = 0;
    std::int32_t previous = 0;
    std::int32_t next = 0;
  };
  /// A pair to be merged, by the place of its left token. It is stale once one of the two changed.
  struct Candidate {
    std::int32_t rank = 0;
    std::int32_t left = 0;
    std::int32_t id = 0;
  };
  static bool later(const Candidate& a, const Candidate& b) {
    return a.rank != b.rank ? a.rank > b.rank : a.left > b.left;
  }
  void link(const std::vector<std::int32_t>& ids);
  std::optional<Candidate> candidate_at(std::int32_t left, const MergeTable& table);
  void push(std::int32_t left, const MergeTable& table);
  void join(std::int32_t left, std::int32_t id);

  std::vector<Token> tokens_;
  std::vector<Candidate> heap_;
  std::int64_t num_candidates_ = 0;
};

}  // namespace troupe::stages
