#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tensor/device/device.h"
#include "tensor/values/tensor.h"

namespace troupe::tensor {

/// A collective that has been started. It finishes without anybody waiting for it. Deleting it
/// before it is done aborts its group, unless a stream has been made to wait for it.
class Work {
 public:
  virtual ~Work() = default;
  virtual bool done() const = 0;
  /// Blocks the host until done; throws Error{unavailable} if the group was aborted or the deadline
  /// passed, naming the collective, the group and the members that are missing.
  virtual void wait() = 0;
  /// Makes ops that `stream` is given from now on run after the collective. A group of hosts blocks
  /// the caller, because ops of a CPU run when they are called, and throws as wait() does. A
  /// device's own group does not, and if it fails the ops run on arbitrary content: fault() tells.
  virtual void wait(Stream& stream) = 0;
  /// When it was done, in seconds of std::chrono::steady_clock. Only once done() has been true or a
  /// wait of the host has returned.
  virtual double finished_s() const = 0;
  /// Whether wait(stream) may block the host.
  virtual bool blocks_host() const { return true; }
  /// Whether the host has to wait before it goes on with what comes after the collective: not with
  /// ops that a stream can keep back.
  bool holds_up() const { return blocks_host() && !done(); }
};

enum class Reduction { sum, max, average };

enum class Operation : std::uint8_t {
  all_reduce,
  all_gather,
  reduce_scatter,
  all_to_all,
  broadcast,
  barrier
};
/// "all-reduce".
inline const char* name_of(Operation operation) {
  constexpr std::array kNames{"all-reduce", "all-gather", "reduce-scatter",
                              "all-to-all", "broadcast",  "barrier"};
  return kNames[static_cast<std::size_t>(operation)];
}

/// A collective that a member calls, as a value. Owns nothing.
struct CollectiveCall {
  Operation operation = Operation::barrier;
  Reduction reduction = Reduction::sum;
  int root = 0;
  std::span<const Tensor> in;   ///< none of an all-reduce and a broadcast, which are in place
  std::span<const Tensor> out;  ///< of these two with the input
  /// Elements for each member, of what this one sends and receives; empty: as many for each.
  std::span<const std::int64_t> send_counts, receive_counts;
};

// What groups among hosts do alike.

/// Elements of the members before this one.
std::int64_t elements_before(std::span<const std::int64_t> counts, std::size_t member);
/// The call of a member with its input, also if it is in place, and with its counts, also if it is
/// even: `counts` has room for a number of each member, and holds them then. Asserts that what the
/// member gives and takes fits the counts.
CollectiveCall completed(const CollectiveCall& call, int member, std::span<std::int64_t> counts);
/// Copies `count` elements from one place in host memory to another, which may be the same.
void copy_elements(const Tensor& from, std::int64_t from_begin, const Tensor& to,
                   std::int64_t to_begin, std::int64_t count);

/// Members 0..size()-1 that compute together. All members call the same collectives in the same
/// order, from one thread each. A collective reads and writes its tensors after the ops that
/// `stream` was given before the call; they stay valid until it is done, and no other collective
/// under way writes them. Elements are float32, float64, bfloat16, int32 or int64; all tensors of a
/// call have one dtype, but for a reduce-scatter of bfloat16 into float32. `out` may hold `in` at
/// this member's place in it (in place) but may not overlap it otherwise, nor where dtypes differ.
/// Counts are in elements, one for each member, and may be zero. The order in which a reduction
/// adds, and what it rounds of bfloat16, is the group's own. UcxGroup adds every element in
/// ascending member order, bfloat16 in float32, rounded once or, into float32, not at all, whatever
/// the size and the algorithm, so that all members hold bitwise equal results.
class ProcessGroup {
 public:
  virtual ~ProcessGroup() = default;
  virtual int size() const = 0;
  virtual int member() const = 0;

  virtual std::unique_ptr<Work> start(Stream& stream, const CollectiveCall& call) = 0;

  /// x = reduction of the members' x, in place.
  std::unique_ptr<Work> all_reduce(Stream& stream, const Tensor& x,
                                   Reduction reduction = Reduction::sum) {
    return all_reduce_many(stream, {&x, 1}, reduction);
  }
  /// All tensors in one collective; bitwise equal to a call for each.
  std::unique_ptr<Work> all_reduce_many(Stream& stream, std::span<const Tensor> tensors,
                                        Reduction reduction = Reduction::sum) {
    return start(
        stream,
        {.operation = Operation::all_reduce, .reduction = reduction, .in = {}, .out = tensors});
  }
  /// out[size() * N] = the members' in[N], in member order; or member i has counts[i] elements.
  std::unique_ptr<Work> all_gather(Stream& stream, const Tensor& in, const Tensor& out,
                                   std::span<const std::int64_t> counts = {}) {
    return start(stream, {.operation = Operation::all_gather,
                          .in = {&in, 1},
                          .out = {&out, 1},
                          .receive_counts = counts});
  }
  /// out[N] = this member's N elements of the reduction of in[size() * N]; or member i has
  /// counts[i].
  std::unique_ptr<Work> reduce_scatter(Stream& stream, const Tensor& in, const Tensor& out,
                                       Reduction reduction = Reduction::sum,
                                       std::span<const std::int64_t> counts = {}) {
    return start(stream, {.operation = Operation::reduce_scatter,
                          .reduction = reduction,
                          .in = {&in, 1},
                          .out = {&out, 1},
                          .send_counts = counts});
  }
  /// out block i = block `member()` of member i's in, both [size() * N]; or send_counts[i] elements
  /// of `in` go to member i, and receive_counts[i] from it into `out`, both in member order.
  std::unique_ptr<Work> all_to_all(Stream& stream, const Tensor& in, const Tensor& out,
                                   std::span<const std::int64_t> send_counts = {},
                                   std::span<const std::int64_t> receive_counts = {}) {
    return start(stream, {.operation = Operation::all_to_all,
                          .in = {&in, 1},
                          .out = {&out, 1},
                          .send_counts = send_counts,
                          .receive_counts = receive_counts});
  }
  /// x = root's x, on all members.
  std::unique_ptr<Work> broadcast(Stream& stream, const Tensor& x, int root) {
    return start(stream,
                 {.operation = Operation::broadcast, .root = root, .in = {}, .out = {&x, 1}});
  }
  /// Done once all members have called it.
  std::unique_ptr<Work> barrier(Stream& stream) { return start(stream, {}); }

  /// Ends every work, now and later, with an Error that holds `reason`. Callable from any thread.
  virtual void abort(const std::string& reason) = 0;
  /// Why the group has ended; empty as long as it works. Callable from any thread.
  virtual std::string fault() const = 0;
  /// Bytes that the group holds to work in; 0 if it does not know. Callable from any thread.
  virtual std::int64_t bytes() const { return 0; }
};

/// What a device needs to know to make a group of its own.
struct GroupSpec {
  std::string name;  ///< for errors
  /// A number for each member that no other process has, in member order. Groups of one device with
  /// the same members and epoch share what they communicate by.
  std::vector<std::uint64_t> members;
  std::uint64_t epoch = 0;  ///< tells configurations of one run apart; the same on all members
  CollectiveSums sums = CollectiveSums::ordered;
  std::chrono::milliseconds deadline{0};  ///< of a wait of the host; zero: none
};

/// A group that communicates by a device's own means, in the order of the calls of all groups of
/// the device, which is the same on all members of each.
class DeviceGroup : public ProcessGroup {
 public:
  /// Whether collectives may start: it takes its time to begin, beside other work. Never true again
  /// after a fault. Callable from any thread.
  virtual bool is_ready() const = 0;
};

/// What Device::make_group() gives.
struct MadeGroup {
  std::unique_ptr<DeviceGroup> group;  ///< null: tensors are to be staged through host memory
  std::string fault;  ///< why there is none, though devices of this kind have groups; else empty
};

}  // namespace troupe::tensor
