#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "tensor/cuda/nccl/nccl_batch.h"
#include "tensor/cuda/nccl/nccl_communicator.h"
#include "tensor/cuda/runtime/kernel_stream.h"
#include "tensor/device/process_group.h"

namespace troupe::tensor::cuda {

/// Bytes of the largest part of a reduction that every two members have for each other. The scratch
/// memory of a reduction has two parts for each member.
inline constexpr std::size_t kPartBytes = std::size_t{2} << 20;
inline constexpr std::size_t kPartsAtOnce = 2;

/// Queues collectives on a stream, as calls of NCCL and, for sums in member order, kernels of our
/// own: a reduction is divided into a slice for each member, which gets the others' values of it,
/// adds them in ascending order, and sends the result to all. A large one is done in parts: while a
/// part is added, on a stream of its own, the values of the next and the results of the one before
/// travel. A small one is not divided: every member gets all values.
class NcclExchange {
 public:
  /// `communicator` is null for a group of one member. `adding` is for sums beside what travels,
  /// and nobody else's between two calls of queue(). All references outlive this.
  NcclExchange(NcclCommunicator* communicator, KernelStream& stream, KernelStream& adding,
               CollectiveSums sums);

  int size() const { return communicator_ ? communicator_->size() : 1; }
  int member() const { return communicator_ ? communicator_->member() : 0; }
  /// Queues the call, which is completed(). Throws Error{unavailable} if NCCL refuses it.
  void queue(const CollectiveCall& call);

 private:
  /// Elements [begin, begin + size) of tensors that are read as one row.
  struct Slice {
    std::int64_t begin = 0;
    std::int64_t size = 0;
  };
  /// Elements of a tensor that lie side by side, and their place in the slice they belong to.
  struct Piece {
    std::byte* data = nullptr;
    std::int64_t offset = 0;
    std::int64_t size = 0;
  };
  using Visit = std::function<void(const Piece&)>;

  static void visit(std::span<const Tensor> row, Slice slice, const Visit& visit);
  static void send(NcclBatch& batch, std::span<const Tensor> row, Slice slice, int to);
  static void receive(NcclBatch& batch, std::span<const Tensor> row, Slice slice, int from);

  void all_reduce(const CollectiveCall& call);
  void reduce_scatter(const CollectiveCall& call);
  void all_gather(const CollectiveCall& call);
  void all_to_all(const CollectiveCall& call);
  void broadcast(const CollectiveCall& call);
  void barrier();
  bool is_of_library(const CollectiveCall& call) const;
  void reduce_slices(const CollectiveCall& call);
  void reduce_parts(const CollectiveCall& call, bool spreads);
  Slice part_of(int member, std::int64_t part) const;
  std::byte* received(std::int64_t part) const;
  void exchange(const CollectiveCall& call, std::int64_t gathered, std::int64_t spread);
  void gather_values(NcclBatch& batch, std::span<const Tensor> row, std::int64_t part);
  void spread_results(NcclBatch& batch, std::span<const Tensor> row, std::int64_t part);
  void add_values(const CollectiveCall& call, std::int64_t part, KernelStream& stream);
  void copy_own(const CollectiveCall& call);
  void copy(const Tensor& from, std::int64_t from_begin, const Tensor& to, std::int64_t to_begin,
            std::int64_t count);

  NcclCommunicator* const communicator_;
  KernelStream &stream_, &adding_;
  const CollectiveSums sums_;
  std::vector<Slice> slices_;  ///< of a reduction, by the member that adds them
  std::int64_t step_ = 0;      ///< elements of a part of a slice
  std::int64_t num_parts_ = 0;
  std::byte* received_ = nullptr;  ///< the others' values of parts, in scratch memory
  std::int64_t stride_ = 0;        ///< bytes there between two members
  /// By parts at once: their values have come; their sums are there.
  std::array<std::unique_ptr<Event>, kPartsAtOnce> gathered_, added_;
};

}  // namespace troupe::tensor::cuda
