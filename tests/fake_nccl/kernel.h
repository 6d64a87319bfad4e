#pragma once

#include <nccl.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "tests/fake_nccl/segment.h"

namespace troupe::fake_nccl {

/// A call of NCCL, which is made part of a kernel when its group ends.
struct Call {
  enum class Kind : std::uint32_t {
    send,
    receive,
    all_reduce,
    all_gather,
    reduce_scatter,
    broadcast
  };
  Kind kind = Kind::send;
  const void* in = nullptr;
  void* out = nullptr;
  std::size_t count = 0;  ///< elements, of an all-gather and a reduce-scatter those of one rank
  ncclDataType_t type = ncclUint8;
  ncclRedOp_t reduction = ncclSum;
  int peer = 0;  ///< or the root
};

/// The calls of a group on a communicator and a stream, which run together. What two ranks have for
/// each other must agree in order, kind and size: else both wait for ever, as NCCL's kernels do.
class Kernel {
 public:
  Kernel(Segment& segment, int rank, int size, std::vector<Call> calls);

  /// Takes what this rank has, which is there when its stream has come to the kernel.
  void begin();
  /// Moves what can move. Returns whether anything did.
  bool advance();
  /// Whether all has arrived, here and at the others.
  bool has_moved_all() const;
  /// Adds what has arrived: each element from another rank on, rounded at each step.
  void finish();

 private:
  struct Header {
    Call::Kind kind;
    std::uint64_t bytes;
  };
  struct Transfer {
    Header header;
    std::byte* data;
    std::size_t done = 0;  ///< bytes of the header and of the data
  };
  /// Values of all ranks, in rank order, that a call adds.
  struct Summands {
    const Call* call;
    std::vector<std::byte> values;
  };
  using Transfers = std::deque<Transfer>;

  void plan(const Call& call);
  void send(const Call& call, int to, const void* data, std::size_t bytes);
  void receive(const Call& call, int from, void* data, std::size_t bytes);
  bool move(Ring& ring, Transfers& transfers, bool sends);

  Segment& segment_;
  const int rank_, size_;
  const std::vector<Call> calls_;
  std::array<Transfers, kMostRanks> sends_, receives_;  ///< by the other rank
  std::deque<Summands> summands_;
};

}  // namespace troupe::fake_nccl
