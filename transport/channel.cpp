#include "transport/channel.h"

#include <fmt/format.h>

namespace troupe::transport {
namespace {

const char* one_of(Direction direction) {
  return direction == Direction::forward ? "activation" : "gradient";
}

}  // namespace

std::uint64_t digest(const Edge& edge) {
  std::uint64_t sum = 0xcbf29ce484222325ull;  // FNV-1a, a field at a time
  const auto add = [&sum](auto field) {
    sum = (sum ^ static_cast<std::uint64_t>(field)) * 0x100000001b3ull;
  };
  add(edge.from);
  add(edge.to);
  add(edge.chunk);
  add(edge.direction);
  add(edge.dtype);
  add(edge.shape.rank());
  for (const std::int64_t dim : edge.shape.dims()) add(dim);
  add(edge.slots);
  return sum;
}

std::string to_string(const Edge& edge) {
  return fmt::format("edge {} -> {} ({}s into chunk {})", edge.from, edge.to,
                     one_of(edge.direction), edge.chunk);
}

std::string to_string(const MessageKey& key) {
  return fmt::format("{} of step {}, microbatch {} into chunk {}", one_of(key.direction), key.step,
                     key.microbatch, key.chunk);
}

}  // namespace troupe::transport
