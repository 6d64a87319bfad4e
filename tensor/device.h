#pragma once

#include <cstddef>
#include <memory>

#include "tensor/tensor.h"

namespace troupe::tensor {

enum class MemoryKind { host, pinned, device };

class Attention;
class Device;
class Linear;
class Ops;
struct AttentionShape;
struct LinearShape;

/// Owner of memory of one kind, aligned to 64 bytes at least and zeroed. Move-only.
class Buffer {
 public:
  using Deleter = void (*)(void* data, std::size_t bytes);

  Buffer() = default;
  Buffer(void* data, std::size_t bytes, MemoryKind kind, Deleter deleter)
      : data_(data), bytes_(bytes), kind_(kind), deleter_(deleter) {}
  Buffer(Buffer&& other) noexcept { swap(other); }
  Buffer& operator=(Buffer&& other) noexcept {
    swap(other);
    return *this;
  }
  ~Buffer() {
    if (data_) deleter_(data_, bytes_);
  }

  void* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }
  MemoryKind kind() const { return kind_; }
  /// A view of the bytes from `offset`. The caller keeps offset + size within bytes().
  Tensor view(DType dtype, Shape shape, std::size_t offset = 0) const {
    return {static_cast<std::byte*>(data_) + offset, dtype, shape};
  }

 private:
  void swap(Buffer& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    std::swap(kind_, other.kind_);
    std::swap(deleter_, other.deleter_);
  }

  void* data_ = nullptr;
  std::size_t bytes_ = 0;
  MemoryKind kind_ = MemoryKind::host;
  Deleter deleter_ = nullptr;
};

/// An ordered queue of ops on one device. On a CPU every op has run when its call returns.
class Stream {
 public:
  virtual ~Stream() = default;
  virtual Device& device() = 0;
  /// Blocks until all ops queued so far have run.
  virtual void synchronize() = 0;
};

/// A mark in a stream, for another stream or the host to wait for. Always reached on a CPU. Each
/// record() makes a new mark. A wait is for the mark that was the latest when the wait began.
class Event {
 public:
  virtual ~Event() = default;
  /// Marks the end of the ops that `stream` was given so far.
  virtual void record(Stream& stream) = 0;
  /// Makes ops that `stream` is given from now on run after the mark is reached. Has no effect if
  /// there is no mark.
  virtual void wait(Stream& stream) = 0;
  /// Blocks the host until the mark is reached.
  virtual void synchronize() = 0;
  virtual bool done() const = 0;
};

/// Where tensors live and ops run. Everything it makes must not outlive it. All calls of one Device
/// and of what it made come from one thread (its runner), except allocate(). Ops of two streams may
/// run at the same time: only events order them.
class Device {
 public:
  virtual ~Device() = default;
  virtual Buffer allocate(std::size_t bytes, MemoryKind kind) = 0;
  /// Prepares about so many bytes for later calls of allocate(), and gives back the rest of an
  /// earlier reserve. Does nothing if allocations cost little.
  virtual void reserve(std::size_t) {}
  virtual std::unique_ptr<Stream> make_stream() = 0;
  virtual std::unique_ptr<Event> make_event() = 0;
  virtual Ops& ops() = 0;
  /// Prepares the products of one linear layer shape; takes no memory of the device.
  virtual std::unique_ptr<Linear> make_linear(const LinearShape& shape) = 0;
  virtual std::unique_ptr<Attention> make_attention(const AttentionShape& shape) = 0;
};

/// The host processor as a device. `threads` is the number of OpenMP threads of an op.
std::unique_ptr<Device> make_cpu_device(int threads);

}  // namespace troupe::tensor
