#pragma once

#include <array>
#include <boost/container/static_vector.hpp>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <variant>

#include "transport/memory/slot_memory.h"
#include "transport/wire/edge.h"

namespace troupe::transport {

/// Longest header: UCX 1.13 ends the process if a header does not fit its smallest buffer.
inline constexpr std::size_t kMaxHeaderBytes = 2048;
using HeaderBytes = std::array<std::byte, kMaxHeaderBytes>;

/// The structs of header.capnp as plain values; the meaning of their fields is written there.
struct EdgeId {
  int chunk = 0;
  Direction direction = Direction::forward;
  std::uint64_t digest = 0;
  bool operator==(const EdgeId&) const = default;
};

struct Grant {
  EdgeId edge;
  tensor::DType dtype = tensor::DType::f32;
  tensor::Shape shape;
  int slots = 0;
  bool kept = false;
  SegmentName segment;
  bool on_device = false;
  bool operator==(const Grant&) const = default;
};

struct Decline {
  EdgeId edge;
  bool operator==(const Decline&) const = default;
};

struct Credit {
  EdgeId edge;
  boost::container::static_vector<std::uint16_t, 64> slots;
  bool operator==(const Credit&) const = default;
};

enum class Placement : std::uint8_t { payload = 0, written = 1 };

struct TensorMessage {
  EdgeId edge;
  std::uint64_t step = 0;
  int microbatch = 0;
  int slot = 0;
  Placement placement = Placement::payload;
  tensor::DType dtype = tensor::DType::f32;
  tensor::Shape shape;
  std::uint64_t bytes = 0;
  std::uint64_t sequence = 0;
  std::optional<Credit> credit;
  bool operator==(const TensorMessage&) const = default;

  MessageKey key() const {
    return {
        .step = step, .microbatch = microbatch, .chunk = edge.chunk, .direction = edge.direction};
  }
};

enum class CollectiveKind : std::uint8_t { request = 0, data = 1, written = 2, called = 3 };

struct CollectiveMessage {
  CollectiveKind kind = CollectiveKind::request;
  std::uint32_t group = 0;
  std::uint64_t sequence = 0;
  std::uint8_t operation = 0;
  std::uint32_t part = 0;
  std::uint64_t bytes = 0;
  tensor::DType dtype = tensor::DType::f32;
  std::uint8_t reduction = 0;
  SegmentName segment;
  std::uint64_t segment_bytes = 0;
  std::uint64_t offset = 0;
  bool operator==(const CollectiveMessage&) const = default;
};

struct Header {
  std::uint64_t run = 0;
  std::uint32_t configuration = 0;
  int sender = 0;
  std::variant<Grant, TensorMessage, Credit, CollectiveMessage, Decline> body;
  bool operator==(const Header&) const = default;
};

/// Writes `header` to the front of `out` and returns its length. Allocates no heap memory.
std::size_t encode(const Header& header, HeaderBytes& out);
/// Reads what encode() wrote, at any alignment, and returns none for any other bytes. Throws
/// nothing and reads no memory beyond `bytes`, whatever they are.
std::optional<Header> decode(std::span<const std::byte> bytes) noexcept;

}  // namespace troupe::transport
