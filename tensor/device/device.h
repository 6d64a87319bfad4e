#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "tensor/values/tensor.h"

namespace troupe::tensor {

enum class MemoryKind { host, pinned, device };
enum class DeviceKind { cpu, cuda };
/// The order in which a device's own groups add: ascending by member, as groups of hosts do, or as
/// the device's library likes, which is faster and gives other bits.
enum class CollectiveSums { ordered, library };

/// What a process asks of its one device.
struct DeviceSpec {
  DeviceKind kind = DeviceKind::cpu;
  int threads = 1;            ///< OpenMP threads of an op of the CPU
  int index = 0;              ///< which of the machine's GPUs
  bool tf32 = false;          ///< whether a GPU rounds the factors of float32 products to tf32
  bool deterministic = true;  ///< whether a GPU must give the same bits each time
  /// File with the algorithms that were chosen for products by their speed; empty: none are.
  std::string tuning;
  bool operator==(const DeviceSpec&) const = default;
};

/// Bytes of a device's own memory; zeros for a CPU.
struct DeviceMemory {
  std::size_t used = 0;  ///< by all processes
  std::size_t total = 0;
};

class Attention;
class CachedAttention;
class Device;
class DeviceGroup;
class GroupedLinear;
class Linear;
class Ops;
class ProcessGroup;
class SharedMemory;
struct AttentionShape;
struct CachedAttentionShape;
struct GroupedLinearShape;
struct GroupSpec;
struct LinearShape;
struct MadeGroup;

/// Owner of memory of one kind, zeroed and aligned to 64 bytes at least, on a GPU to 256.
/// Move-only.
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

/// Memory that a layer's calls work in, in two pieces on 256-byte boundaries: one for forwards and
/// one for gradients, so that a forward on one stream may run at the same time as a gradient on
/// another.
struct Scratch {
  void* forward = nullptr;
  void* backward = nullptr;
};

/// Sizes of the two pieces of a Scratch.
struct ScratchBytes {
  std::size_t forward = 0;
  std::size_t backward = 0;
};

/// An ordered queue of ops on one device. On a CPU every op has run when its call returns. A stream
/// ends once its ops have run, or the device has failed.
class Stream {
 public:
  virtual ~Stream() = default;
  virtual Device& device() = 0;
  /// Blocks until all ops queued so far have run.
  virtual void synchronize() = 0;
};

/// A mark in a stream, for another stream or the host to wait for. Always reached on a CPU. Each
/// record() makes a new mark. A wait is for the mark that was the latest when the wait began. If
/// the device has failed, every function here throws Error{internal}.
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
  /// Calls call(argument) once, when the latest mark is reached: before this returns if it is
  /// reached already or there is none, else from a thread of the device. `call` throws nothing and
  /// uses nothing of the device. It never comes if the device fails meanwhile: who depends on it
  /// asks done() now and then.
  virtual void on_reached(void (*call)(void*), void* argument) = 0;
  /// The time at which the latest mark was reached, in seconds of std::chrono::steady_clock. Only
  /// for an event of Device::make_timed_event() whose mark is reached.
  virtual double reached_s() const = 0;
};

/// Where tensors live and ops run. A process makes one, and all that computes in it shares that.
/// Everything it makes must not outlive it.
///
/// Any thread may at any time allocate, reserve, share, map, pin, make streams and events, and ask
/// for memory().
/// Linear layers and attention are made, and given their scratch memory, by one thread at a time,
/// while others may run ops. A stream, and the ops and events on it, are used by one thread at a
/// time. Ops of two streams may run at the same time: only events order them.
class Device {
 public:
  virtual ~Device() = default;
  virtual Buffer allocate(std::size_t bytes, MemoryKind kind) = 0;
  /// Prepares about so many bytes for later calls of allocate(), and gives back the rest of an
  /// earlier reserve. Does nothing if allocations cost little.
  virtual void reserve(std::size_t) {}
  /// Gives memory of allocate() back to the machine, with no op on it under way, until bring_back()
  /// or its next use: its content is zero then, its address stays. Returns the bytes; 0: the device
  /// cannot do that, and the content stays.
  virtual std::size_t give_back(const Buffer&) { return 0; }
  virtual void bring_back(const Buffer&) {}
  /// Zeroed memory of the device, of at least `bytes`, that other processes can map. Empty if the
  /// device cannot share memory, or has no room.
  virtual SharedMemory share(std::size_t bytes);
  /// Maps memory of at least `bytes` that a device of this kind, of any process of this machine,
  /// has shared, by a descriptor that the caller keeps. Ops of this device read and write it. It
  /// stays valid whatever becomes of that process. Empty if this device cannot reach it, or the
  /// descriptor is of anything else.
  virtual Buffer map(int /*descriptor*/, std::size_t /*bytes*/) { return {}; }
  /// Lets ops of this device reach host memory that it has not allocated, until unpin() of the same
  /// address. False if it cannot.
  virtual bool pin(void* /*data*/, std::size_t /*bytes*/) { return true; }
  virtual void unpin(void* /*data*/) {}
  virtual std::unique_ptr<Stream> make_stream() = 0;
  virtual std::unique_ptr<Event> make_event() = 0;
  /// An event that also keeps the time of its mark.
  virtual std::unique_ptr<Event> make_timed_event() = 0;
  /// Whether the host may follow pointers to memory of MemoryKind::device.
  virtual bool host_reads_memory() const = 0;
  virtual DeviceMemory memory() const { return {}; }
  virtual Ops& ops() = 0;
  /// Prepares the products of one linear layer shape; takes no memory of the device.
  virtual std::unique_ptr<Linear> make_linear(const LinearShape& shape) = 0;
  /// The products of several layers of one shape (tensor/device/grouped_linear.h). Unless the
  /// device has them, as calls of its linear layers.
  virtual std::unique_ptr<GroupedLinear> make_grouped_linear(const GroupedLinearShape& shape);
  virtual std::unique_ptr<Attention> make_attention(const AttentionShape& shape) = 0;
  virtual std::unique_ptr<CachedAttention> make_cached_attention(
      const CachedAttentionShape& shape) = 0;
  /// A group of this device for the members of `hosts`, all of which call this, in the same order
  /// as for their other groups; they talk over `hosts` meanwhile. No member gets one if one of them
  /// cannot. The device outlives the group.
  virtual MadeGroup make_group(const GroupSpec& spec, ProcessGroup& hosts);
};

/// Throws Error{unavailable} if this machine has no such device, or its libraries are missing.
std::unique_ptr<Device> make_device(const DeviceSpec& spec);
/// The host processor as a device. `threads` is the number of OpenMP threads of an op.
std::unique_ptr<Device> make_cpu_device(int threads);

}  // namespace troupe::tensor
