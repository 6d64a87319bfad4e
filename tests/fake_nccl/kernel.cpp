#include "tests/fake_nccl/kernel.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <utility>

namespace troupe::fake_nccl {
namespace {

std::size_t size_of(ncclDataType_t type) {
  switch (type) {
    case ncclFloat32:
    case ncclInt32:
      return 4;
    case ncclFloat64:
    case ncclInt64:
      return 8;
    case ncclBfloat16:
      return 2;
    default:
      return 1;
  }
}

struct BFloat16 {
  std::uint16_t bits;

  operator float() const { return std::bit_cast<float>(std::uint32_t{bits} << 16); }
  static BFloat16 rounded(float x) {
    const auto word = std::bit_cast<std::uint32_t>(x);
    if (std::isnan(x)) return {static_cast<std::uint16_t>(word >> 16 | 0x40)};
    return {static_cast<std::uint16_t>((word + 0x7fff + (word >> 16 & 1)) >> 16)};
  }
};

template <typename T, typename W>
T rounded(W x) {
  if constexpr (std::is_same_v<T, BFloat16>)
    return BFloat16::rounded(x);
  else
    return static_cast<T>(x);
}

/// out = the reduction of `ranks` rows, each element from another rank on.
template <typename T, typename W = T>
void reduce(const std::byte* rows, std::size_t ranks, const Call& call) {
  constexpr std::size_t kSameOrder = 16;
  T* const out = static_cast<T*>(call.out);
  const auto value = [&](std::size_t rank, std::size_t i) {
    T x;
    std::memcpy(&x, rows + (rank * call.count + i) * sizeof(T), sizeof x);
    return static_cast<W>(x);
  };
  for (std::size_t i = 0; i < call.count; ++i) {
    const std::size_t first = i / kSameOrder % ranks;
    W x = value(first, i);
    for (std::size_t r = 1; r < ranks; ++r) {
      const W y = value((first + r) % ranks, i);
      x = static_cast<W>(rounded<T>(call.reduction == ncclMax ? std::max(x, y) : x + y));
    }
    out[i] = rounded<T>(call.reduction == ncclAvg ? x / static_cast<W>(ranks) : x);
  }
}

void reduce_rows(const std::byte* rows, std::size_t ranks, const Call& call) {
  switch (call.type) {
    case ncclFloat32:
      return reduce<float>(rows, ranks, call);
    case ncclFloat64:
      return reduce<double>(rows, ranks, call);
    case ncclBfloat16:
      return reduce<BFloat16, float>(rows, ranks, call);
    case ncclInt32:
      return reduce<std::int32_t>(rows, ranks, call);
    default:
      return reduce<std::int64_t>(rows, ranks, call);
  }
}

std::byte* at(const void* data, std::size_t offset) {
  return static_cast<std::byte*>(const_cast<void*>(data)) + offset;
}

}  // namespace

Kernel::Kernel(Segment& segment, int rank, int size, std::vector<Call> calls)
    : segment_(segment), rank_(rank), size_(size), calls_(std::move(calls)) {}

void Kernel::begin() {
  for (const Call& call : calls_) plan(call);
}

void Kernel::send(const Call& call, int to, const void* data, std::size_t bytes) {
  sends_[static_cast<std::size_t>(to)].push_back({{call.kind, bytes}, at(data, 0)});
}

void Kernel::receive(const Call& call, int from, void* data, std::size_t bytes) {
  receives_[static_cast<std::size_t>(from)].push_back({{call.kind, bytes}, at(data, 0)});
}

void Kernel::plan(const Call& call) {
  const std::size_t bytes = call.count * size_of(call.type);
  if (call.kind == Call::Kind::send) return send(call, call.peer, call.in, bytes);
  if (call.kind == Call::Kind::receive)
    return receive({Call::Kind::send}, call.peer, call.out, bytes);
  const bool scatters = call.kind == Call::Kind::reduce_scatter;
  const bool adds = scatters || call.kind == Call::Kind::all_reduce;
  std::byte* rows = static_cast<std::byte*>(call.out);
  if (adds) {
    summands_.push_back({&call, std::vector<std::byte>(bytes * static_cast<std::size_t>(size_))});
    rows = summands_.back().values.data();
  }
  for (int other = 0; other < size_; ++other) {
    const std::size_t row = static_cast<std::size_t>(other) * bytes;
    const void* const in = at(call.in, scatters ? row : 0);
    const bool broadcasts = call.kind == Call::Kind::broadcast;
    if (other == rank_) {
      if (!broadcasts || rank_ == call.peer)
        std::memmove(broadcasts ? rows : rows + row, in, bytes);
      continue;
    }
    if (!broadcasts || rank_ == call.peer) send(call, other, in, bytes);
    if (!broadcasts || other == call.peer)
      receive(call, other, broadcasts ? rows : rows + row, bytes);
  }
}

bool Kernel::advance() {
  bool moved = false;
  const auto self = static_cast<std::size_t>(rank_);
  for (std::size_t other = 0; other < static_cast<std::size_t>(size_); ++other) {
    moved |= move(segment_.rings[self][other], sends_[other], true);
    moved |= move(segment_.rings[other][self], receives_[other], false);
  }
  return moved;
}

bool Kernel::move(Ring& ring, Transfers& transfers, bool sends) {
  if (transfers.empty()) return false;
  Transfer& next = transfers.front();
  const auto pass = [&](std::byte* data, std::size_t bytes) {
    return sends ? ring.write(data, bytes) : ring.read(data, bytes);
  };
  std::size_t moved = 0;
  if (next.done == 0) {  // a header goes whole, because rings hold a multiple of its size
    Header header = next.header;
    const std::size_t there = ring.written - ring.taken;
    if (sends ? Ring::kBytes - there < sizeof header : there < sizeof header) return false;
    moved = pass(reinterpret_cast<std::byte*>(&header), sizeof header);
    if (header.kind != next.header.kind || header.bytes != next.header.bytes)
      next.header.bytes = static_cast<std::size_t>(-1) / 2;  // it never ends
  }
  next.done += moved;
  const std::size_t done = next.done - sizeof(Header);
  const bool is_mismatched = next.header.bytes == static_cast<std::size_t>(-1) / 2;
  if (!is_mismatched) {
    const std::size_t more = pass(next.data + done, next.header.bytes - done);
    next.done += more;
    moved += more;
    if (next.done == sizeof(Header) + next.header.bytes) transfers.pop_front();
  }
  return moved > 0;
}

bool Kernel::has_moved_all() const {
  const auto& rings = segment_.rings[static_cast<std::size_t>(rank_)];
  for (std::size_t other = 0; other < static_cast<std::size_t>(size_); ++other)
    if (!sends_[other].empty() || !receives_[other].empty() || !rings[other].is_empty())
      return false;
  return true;
}

void Kernel::finish() {
  for (const Summands& summands : summands_)
    reduce_rows(summands.values.data(), static_cast<std::size_t>(size_), *summands.call);
}

}  // namespace troupe::fake_nccl
