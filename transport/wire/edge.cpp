#include "transport/wire/edge.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <array>
#include <boost/container/static_vector.hpp>

#include "transport/memory/slot_memory.h"

namespace troupe::transport {
namespace {

const char* one_of(Direction direction) {
  switch (direction) {
    case Direction::forward:
      return "activation";
    case Direction::backward:
      return "gradient";
    case Direction::state:
      return "state";
  }
  return "?";
}

EndTensor end_tensor(const Edge& edge, const Piece& piece) {
  if (piece.is_whole())
    return {.shape = edge.shape, .offset = 0, .stride = in_cache_lines(tensor_bytes(edge))};
  std::array<std::int64_t, tensor::Shape::kMaxRank> dims{};
  std::ranges::copy(edge.shape.dims(), dims.begin());
  const std::size_t row = tensor_bytes(edge) / static_cast<std::size_t>(dims[0]);
  dims[0] = piece.rows;
  return {.shape = tensor::Shape(std::span(dims.data(), edge.shape.dims().size())),
          .offset = static_cast<std::size_t>(piece.first_row) * row,
          .stride = in_cache_lines(static_cast<std::size_t>(piece.rows) * row)};
}

bool ends_at(const Edge& edge, int rank) {
  return edge.to == rank;
}
bool begins_at(const Edge& edge, int rank) {
  return edge.from == rank;
}

bool are_of_one_end(const Edge& a, const Edge& b) {
  return a.chunk == b.chunk && a.direction == b.direction;
}

template <typename IsHere>
std::vector<std::vector<Edge>> ends_of(std::span<const Edge> edges, int rank, IsHere is_here) {
  std::vector<std::vector<Edge>> ends;
  for (const Edge& edge : edges) {
    if (!is_here(edge, rank)) continue;
    const auto known = std::ranges::find_if(
        ends, [&edge](const auto& end) { return are_of_one_end(end.front(), edge); });
    known == ends.end() ? ends.push_back({edge}) : known->push_back(edge);
  }
  return ends;
}

template <typename IsHere, typename Bytes>
std::size_t bytes_of_ends(std::span<const Edge> edges, int rank, IsHere is_here, Bytes bytes_of) {
  std::size_t bytes = 0;
  for (auto edge = edges.begin(); edge != edges.end(); ++edge) {
    if (!is_here(*edge, rank)) continue;
    const bool is_first = std::none_of(edges.begin(), edge, [&](const Edge& other) {
      return is_here(other, rank) && are_of_one_end(other, *edge);
    });
    if (is_first) bytes += bytes_of(*edge);
  }
  return bytes;
}

}  // namespace

std::uint64_t digest(const Edge& edge) {
  boost::container::static_vector<std::uint64_t, 12 + tensor::Shape::kMaxRank> fields;
  const auto add = [&fields](auto field) { fields.push_back(static_cast<std::uint64_t>(field)); };
  add(edge.from);
  add(edge.to);
  add(edge.chunk);
  add(edge.direction);
  add(edge.dtype);
  add(edge.shape.rank());
  for (const std::int64_t dim : edge.shape.dims()) add(dim);
  add(edge.slots);
  for (const Piece& piece : {edge.sent, edge.received}) {
    add(piece.first_row);
    add(piece.rows);
  }
  return XXH3_64bits(fields.data(), fields.size() * sizeof fields[0]);
}

std::size_t tensor_bytes(const Edge& edge) {
  return static_cast<std::size_t>(edge.shape.num_elements()) * tensor::size_of(edge.dtype);
}

EndTensor sent_tensor(const Edge& edge) {
  return end_tensor(edge, edge.sent);
}

EndTensor received_tensor(const Edge& edge) {
  return end_tensor(edge, edge.received);
}

std::size_t slots_bytes(const Edge& edge) {
  return edge.is_local() ? 0 : static_cast<std::size_t>(edge.slots) * received_tensor(edge).stride;
}

std::size_t num_send_buffers(const Edge& edge) {
  return static_cast<std::size_t>(edge.is_local() ? edge.slots + kSendBuffers : kSendBuffers);
}

std::size_t send_buffers_bytes(const Edge& edge) {
  return num_send_buffers(edge) * sent_tensor(edge).stride;
}

std::size_t payload_stride(const Edge& edge) {
  return in_cache_lines(tensor_bytes(edge));
}

std::vector<std::vector<Edge>> receiving_ends(std::span<const Edge> edges, int rank) {
  return ends_of(edges, rank, ends_at);
}

std::vector<std::vector<Edge>> sending_ends(std::span<const Edge> edges, int rank) {
  return ends_of(edges, rank, begins_at);
}

std::size_t slots_bytes(std::span<const Edge> edges, int rank) {
  return bytes_of_ends(edges, rank, ends_at, [](const Edge& edge) { return slots_bytes(edge); });
}

std::size_t send_buffers_bytes(std::span<const Edge> edges, int rank) {
  return bytes_of_ends(edges, rank, begins_at,
                       [](const Edge& edge) { return send_buffers_bytes(edge); });
}

std::string to_string(const Edge& edge) {
  if (edge.direction == Direction::state)
    return fmt::format("edge {} -> {} (training state)", edge.from, edge.to);
  return fmt::format("edge {} -> {} ({}s into chunk {})", edge.from, edge.to,
                     one_of(edge.direction), edge.chunk);
}

std::string to_string(const MessageKey& key) {
  if (key.direction == Direction::state)
    return fmt::format("state of step {}, piece {}", key.step, key.microbatch);
  return fmt::format("{} of step {}, microbatch {} into chunk {}", one_of(key.direction), key.step,
                     key.microbatch, key.chunk);
}

}  // namespace troupe::transport
