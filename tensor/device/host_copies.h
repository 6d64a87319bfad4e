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

 private:
  struct Piece {
    Buffer memory;                ///< pinned
    std::unique_ptr<Event> free;  ///< the last copy out of it or into it
  };
  void copy(const Tensor& from, const Tensor& to);
  void prepare();
  /// Host memory of this object for a tensor like x.
  Tensor memory_for(const Tensor& x);

  Device& device_;
  std::array<Piece, 2> pieces_;
  Buffer memory_;
  std::unique_ptr<Stream> stream_;  ///< null before the first copy; last, as it uses the rest
};

}  // namespace troupe::tensor
