#include "tensor/device/host_copies.h"

#include <algorithm>
#include <cstring>

#include "tensor/device/host_memory.h"
#include "tensor/device/ops.h"
#include "tensor/errors/error.h"

namespace troupe::tensor {
namespace {

/// Enough that a copy's own time hides the cost of starting it, and that two fit into a cache.
constexpr std::size_t kPieceBytes = std::size_t{4} << 20;

/// A part of a tensor: `number` counts parts of kPieceBytes.
Tensor part_of(const Tensor& x, std::int64_t number) {
  const auto most = static_cast<std::int64_t>(kPieceBytes / size_of(x.dtype));
  const std::int64_t begin = number * most;
  return {x.as<std::byte>() + static_cast<std::size_t>(begin) * size_of(x.dtype),
          x.dtype,
          {std::min(most, x.num_elements() - begin)}};
}

std::int64_t num_parts(const Tensor& x) {
  return static_cast<std::int64_t>((x.num_bytes() + kPieceBytes - 1) / kPieceBytes);
}

}  // namespace

/// Copies at once, where the device's ops reach all memory.
void HostCopies::copy(const Tensor& from, const Tensor& to) {
  if (from.data == to.data) return;
  if (!stream_) stream_ = device_.make_stream();
  device_.ops().copy(*stream_, from, to);
  stream_->synchronize();
}

void HostCopies::prepare() {
  if (stream_) return;
  for (Piece& piece : pieces_)
    piece = {device_.allocate(kPieceBytes, MemoryKind::pinned), device_.make_event()};
  stream_ = device_.make_stream();
}

void HostCopies::read(const Tensor& x, const Tensor& out) {
  TROUPE_ASSERT(x.dtype == out.dtype && x.num_elements() == out.num_elements());
  if (x.num_elements() == 0) return;
  if (device_.host_reads_memory()) return copy(x, out);
  prepare();
  const auto piece_of = [this](std::int64_t part) -> Piece& {
    return pieces_[static_cast<std::size_t>(part) % pieces_.size()];
  };
  const std::int64_t parts = num_parts(x);
  // The device copies a part while the host takes the one before it out of the other piece.
  for (std::int64_t i = 0; i <= parts; ++i) {
    if (i < parts) {
      const Tensor part = part_of(x, i);
      device_.ops().copy(*stream_, part, piece_of(i).memory.view(part.dtype, part.shape));
      piece_of(i).free->record(*stream_);
    }
    if (i == 0) continue;
    const Tensor part = part_of(out, i - 1);
    piece_of(i - 1).free->synchronize();
    std::memcpy(part.data, piece_of(i - 1).memory.data(), part.num_bytes());
  }
}

void HostCopies::write(const Tensor& from, const Tensor& x) {
  TROUPE_ASSERT(x.dtype == from.dtype && x.num_elements() == from.num_elements());
  if (x.num_elements() == 0) return;
  if (device_.host_reads_memory()) return copy(from, x);
  prepare();
  for (std::int64_t i = 0; i < num_parts(x); ++i) {
    Piece& piece = pieces_[static_cast<std::size_t>(i) % pieces_.size()];
    const Tensor part = part_of(from, i);
    piece.free->synchronize();
    std::memcpy(piece.memory.data(), part.data, part.num_bytes());
    device_.ops().copy(*stream_, piece.memory.view(part.dtype, part.shape), part_of(x, i));
    piece.free->record(*stream_);
  }
}

void HostCopies::synchronize() {
  if (stream_) stream_->synchronize();
}

Tensor HostCopies::on_host(const Tensor& x) {
  if (device_.host_reads_memory()) return x;
  const Tensor host = memory_for(x);
  read(x, host);
  return host;
}

std::span<const std::byte> HostCopies::on_host(std::span<const std::byte> bytes) {
  if (device_.host_reads_memory()) return bytes;
  TROUPE_ASSERT(bytes.size() % sizeof(float) == 0);
  const auto elements = static_cast<std::int64_t>(bytes.size() / sizeof(float));
  const Tensor host = on_host(Tensor{const_cast<std::byte*>(bytes.data()), DType::f32, {elements}});
  return {host.as<const std::byte>(), bytes.size()};
}

Tensor HostCopies::memory_for(const Tensor& x) {
  if (memory_.bytes() < x.num_bytes()) {
    memory_ = {};
    memory_ = allocate_host(x.num_bytes());
  }
  return memory_.view(x.dtype, x.shape);
}

}  // namespace troupe::tensor
