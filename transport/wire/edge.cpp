#include "transport/wire/edge.h"

#include <fmt/format.h>
#include <xxhash.h>

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

}  // namespace

std::uint64_t digest(const Edge& edge) {
  boost::container::static_vector<std::uint64_t, 8 + tensor::Shape::kMaxRank> fields;
  const auto add = [&fields](auto field) { fields.push_back(static_cast<std::uint64_t>(field)); };
  add(edge.from);
  add(edge.to);
  add(edge.chunk);
  add(edge.direction);
  add(edge.dtype);
  add(edge.shape.rank());
  for (const std::int64_t dim : edge.shape.dims()) add(dim);
  add(edge.slots);
  return XXH3_64bits(fields.data(), fields.size() * sizeof fields[0]);
}

std::size_t tensor_bytes(const Edge& edge) {
  return static_cast<std::size_t>(edge.shape.num_elements()) * tensor::size_of(edge.dtype);
}

std::size_t slot_stride(const Edge& edge) {
  return in_cache_lines(tensor_bytes(edge));
}

std::size_t slots_bytes(const Edge& edge) {
  return edge.is_local() ? 0 : static_cast<std::size_t>(edge.slots) * slot_stride(edge);
}

std::size_t num_send_buffers(const Edge& edge) {
  return static_cast<std::size_t>(edge.is_local() ? edge.slots + kSendBuffers : kSendBuffers);
}

std::size_t send_buffers_bytes(const Edge& edge) {
  return num_send_buffers(edge) * slot_stride(edge);
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
