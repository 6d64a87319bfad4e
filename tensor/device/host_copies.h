#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <span>
#include <utility>

#include "tensor/device/device.h"

namespace troupe::tensor {

/// Copies between a device's memory and the host's, in pieces through pinned memory, on a stream of
/// its own, beside what the device computes. If the host reads the device's memory
/// (Device::host_reads_memory), a tensor stands for itself and is copied only by read() and
/// write(). The ops that write what is read here, or use what is written here, must have run
/// before. One thread uses an object; it may be another than the device's. Memory is allocated when
/// it is first needed, and grows with the largest tensor.
class HostCopies {
 public:
  /// The device outlives the object.
  explicit HostCopies(Device& device) : device_(device) {}
  HostCopies(const HostCopies&) = delete;
  HostCopies& operator=(const HostCopies&) = delete;

  /// out = x; `out` is host memory with as many elements of the same dtype. Returns once it is
  /// filled.
  void read(const Tensor& x, const Tensor& out);
  /// x = from; `from` is host memory with as many elements of the same dtype, and free when the
  /// call returns. x is filled after synchronize().
  void write(const Tensor& from, const Tensor& x);
  /// Blocks until everything that was written is there.
  void synchronize();

  /// The elements of x in memory that the host reads: x itself, or a copy that is valid until the
  /// next call of on_host() or fill().
  Tensor on_host(const Tensor& x);
  /// on_host() of a tensor that holds these bytes, of which there are a multiple of 4.
  std::span<const std::byte> on_host(std::span<const std::byte> bytes);
  /// Calls fill(host), which sets every element of `host`, memory that the host writes, then
  /// x = host. x is filled after synchronize().
  template <typename Fill>
  void fill(const Tensor& x, Fill&& fill) {
    if (device_.host_reads_memory()) return std::forward<Fill>(fill)(x);
    const Tensor host = memory_for(x);
    std::forward<Fill>(fill)(host);
    write(host, x);
  }
  /// fill() of x[R,C] that sets some rows at a time, straight in pinned memory: calls fill(host,
  /// row) in ascending order, `host` being the rows of x that begin at `row`.
  template <typename Fill>
  void fill_rows(const Tensor& x, const Fill& fill) {
    const std::int64_t rows = device_.host_reads_memory() ? x.shape[0] : rows_of_piece(x);
    for (std::int64_t row = 0; row < x.shape[0]; row += rows) {
      const Tensor part = rows_of(x, row, rows);
      if (device_.host_reads_memory()) {
        fill(part, row);
      } else if (part.num_bytes() > kPieceBytes) {
        this->fill(part, [&](const Tensor& host) { fill(host, row); });
      } else {
        Piece& piece = next_piece();
        fill(piece.memory.view(part.dtype, part.shape), row);
        send(piece, part);
      }
    }
  }

 private:
  struct Piece {
    Buffer memory;                ///< pinned
    std::unique_ptr<Event> free;  ///< the last copy out of it or into it
  };
  /// Enough that a copy's own time hides the cost of starting it, and that two fit into a cache.
  static constexpr std::size_t kPieceBytes = std::size_t{4} << 20;
  void copy(const Tensor& from, const Tensor& to);
  void prepare();
  /// The piece whose last use is longest ago, once it is free.
  Piece& next_piece();
  /// x = what is in the piece.
  void send(Piece& piece, const Tensor& x);
  /// How many rows of x a piece holds; at least one.
  static std::int64_t rows_of_piece(const Tensor& x);
  /// Up to so many rows of x from `row`.
  static Tensor rows_of(const Tensor& x, std::int64_t row, std::int64_t rows);
  /// Host memory of this object for a tensor like x.
  Tensor memory_for(const Tensor& x);

  Device& device_;
  std::array<Piece, 2> pieces_;
  std::size_t used_ = 0;  ///< pieces that next_piece() has given
  Buffer memory_;
  std::unique_ptr<Stream> stream_;  ///< null before the first copy; last, as it uses the rest
};

}  // namespace troupe::tensor
