#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

#include "tests/contract/messages.h"

// Edges between the ranks of two stages of different width, each of which has some rows of a
// microbatch.

namespace troupe::test {

/// Rows [first, first + count) of a microbatch.
struct Rows {
  std::int64_t first = 0, count = 0;
};

/// The edges that carry to each rank of one stage the rows that it has in common with ranks of the
/// other. Ranks of the senders come first.
struct Bridge {
  std::vector<Rows> senders, receivers;
  std::int64_t hidden = 5;
  int slots = 2;

  int num_ranks() const { return static_cast<int>(senders.size() + receivers.size()); }
  bool sends(int rank) const { return rank < static_cast<int>(senders.size()); }
  const Rows& rows_of(int rank) const {
    const auto at = static_cast<std::size_t>(rank);
    return sends(rank) ? senders[at] : receivers[at - senders.size()];
  }
  std::vector<int> ranks() const {
    std::vector<int> all(static_cast<std::size_t>(num_ranks()));
    std::iota(all.begin(), all.end(), 0);
    return all;
  }
  std::vector<int> ranks(bool sending) const {
    std::vector<int> all;
    for (int rank = 0; rank < num_ranks(); ++rank)
      if (sends(rank) == sending) all.push_back(rank);
    return all;
  }

  /// Activations into chunk 1, of all ranks.
  std::vector<Edge> forward() const { return edges(true); }
  /// Both ways, with the gradients into chunk 0.
  std::vector<Edge> both_ways() const {
    std::vector<Edge> all = edges(true);
    for (const Edge& edge : edges(false)) all.push_back(edge);
    return all;
  }

 private:
  Edge edge(int from, int to, bool forth) const {
    const Rows &theirs = rows_of(from), &ours = rows_of(to);
    const std::int64_t first = std::max(theirs.first, ours.first);
    const std::int64_t end = std::min(theirs.first + theirs.count, ours.first + ours.count);
    const std::int64_t count = std::max<std::int64_t>(end - first, 0);
    const auto piece = [&](const Rows& of) {
      return of.count == count ? transport::Piece{}
                               : transport::Piece{.first_row = first - of.first, .rows = of.count};
    };
    return {.from = from,
            .to = to,
            .chunk = forth ? 1 : 0,
            .direction = forth ? Direction::forward : Direction::backward,
            .shape = {count, hidden},
            .slots = slots,
            .sent = piece(theirs),
            .received = piece(ours)};
  }
  std::vector<Edge> edges(bool forth) const {
    std::vector<Edge> all;
    for (const int from : ranks(forth))
      for (const int to : ranks(!forth))
        if (const Edge made = edge(from, to, forth); made.shape[0] > 0) all.push_back(made);
    return all;
  }
};

/// Stages with so many replicas, which divide the rows.
inline Bridge bridge(int senders, int receivers, std::int64_t hidden = 5, int slots = 2) {
  constexpr std::int64_t kRows = 8;
  Bridge made{.senders = {}, .receivers = {}, .hidden = hidden, .slots = slots};
  for (int i = 0; i < senders; ++i)
    made.senders.push_back({.first = i * kRows / senders, .count = kRows / senders});
  for (int i = 0; i < receivers; ++i)
    made.receivers.push_back({.first = i * kRows / receivers, .count = kRows / receivers});
  return made;
}

inline std::vector<Edge> edges_at(const std::vector<Edge>& edges, int rank) {
  std::vector<Edge> some;
  for (const Edge& edge : edges)
    if (edge.from == rank || edge.to == rank) some.push_back(edge);
  return some;
}

template <typename World>
void open_all(World& world, int ranks, const std::vector<Edge>& edges,
              std::uint32_t configuration = 1) {
  for (int rank = 0; rank < ranks; ++rank)
    world.channel(rank).open({.run = kRun,
                              .configuration = configuration,
                              .rank = rank,
                              .edges = edges_at(edges, rank)});
}

/// Elements of a rank's rows follow from the key and from where they are in the microbatch.
inline void write_rows(const tensor::Tensor& tensor, const MessageKey& key, const Rows& rows) {
  const std::int64_t hidden = tensor.shape[1];
  for (std::int64_t i = 0; i < tensor.num_elements(); ++i)
    tensor.as<float>()[i] = value_of(key, rows.first * hidden + i);
}

inline bool has_rows(const tensor::Tensor& tensor, const MessageKey& key, const Rows& rows) {
  if (tensor.shape[0] != rows.count) return false;
  const std::int64_t hidden = tensor.shape[1];
  for (std::int64_t i = 0; i < tensor.num_elements(); ++i)
    if (tensor.as<float>()[i] != value_of(key, rows.first * hidden + i)) return false;
  return true;
}

inline void send_rows(Channel& channel, const MessageKey& key, const Rows& rows) {
  const tensor::Tensor buffer = channel.acquire(key);
  write_rows(buffer, key, rows);
  channel.send(key, buffer);
}

inline bool receive_rows(Channel& channel, const MessageKey& key, const Rows& rows) {
  const bool ok = has_rows(channel.receive(key), key, rows);
  channel.release(key);
  return ok;
}

}  // namespace troupe::test
