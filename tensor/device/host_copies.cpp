#include "tensor/device/host_copies.h"

#include <algorithm>
#include <cstring>

#include "tensor/device/host_memory.h"
#include "tensor/device/ops.h"
#include "tensor/errors/error.h"

namespace troupe::tensor {
namespace {

/// A part of a tensor: `number` counts parts of so many bytes.
Tensor part_of(const Tensor& x, std::int64_t number, std::size_t bytes) {
  const auto most = static_cast<std::int64_t>(bytes / size_of(x.dtype));
  const std::int64_t begin = number * most;
  return {x.as<std::byte>() + static_cast<std::size_t>(begin) * size_of(x.dtype),
          x.dtype,
          {std::min(most, x.num_elements() - begin)}};
}

std::int64_t num_parts(const Tensor& x, std::size_t bytes) {
  return static_cast<std::int64_t>((x.num_bytes() + bytes - 1) / bytes);
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
  const std::int64_t parts = num_parts(x, kPieceBytes);
  // The device copies a part while the host takes the one before it out of the other piece.
  for (std::int64_t i = 0; i <= parts; ++i) {
    if (i < parts) {
      const Tensor part = part_of(x, i, kPieceBytes);
      device_.ops().copy(*stream_, part, piece_of(i).memory.view(part.dtype, part.shape));
      piece_of(i).free->record(*stream_);
    }
    if (i == 0) continue;
    const Tensor part = part_of(out, i - 1, kPieceBytes);
    piece_of(i - 1).free->synchronize();
    std::memcpy(part.data, piece_of(i - 1).memory.data(), part.num_bytes());
  }
}

void HostCopies::write(const Tensor& from, const Tensor& x) {
  TROUPE_ASSERT(x.dtype == from.dtype && x.num_elements() == from.num_elements());
  if (x.num_elements() == 0) return;
  if (device_.host_reads_memory()) return copy(from, x);
  for (std::int64_t i = 0; i < num_parts(x, kPieceBytes); ++i) {
    const Tensor part = part_of(from, i, kPieceBytes);
    Piece& piece = next_piece();
    std::memcpy(piece.memory.data(), part.data, part.num_bytes());
    send(piece, part_of(x, i, kPieceBytes));
  }
}

HostCopies::Piece& HostCopies::next_piece() {
  prepare();
  Piece& piece = pieces_[used_++ % pieces_.size()];
  piece.free->synchronize();
  return piece;
}

void HostCopies::send(Piece& piece, const Tensor& x) {
  device_.ops().copy(*stream_, piece.memory.view(x.dtype, x.shape), x);
  piece.free->record(*stream_);
}

std::int64_t HostCopies::rows_of_piece(const Tensor& x) {
  const auto elements = static_cast<std::int64_t>(kPieceBytes / size_of(x.dtype));
  return std::max<std::int64_t>(1, elements / x.shape[1]);
}

Tensor HostCopies::rows_of(const Tensor& x, std::int64_t row, std::int64_t rows) {
  const auto skipped = static_cast<std::size_t>(row * x.shape[1]) * size_of(x.dtype);
  return {x.as<std::byte>() + skipped, x.dtype, {std::min(rows, x.shape[0] - row), x.shape[1]}};
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
