#include "tensor/cuda/nccl/nccl_exchange.h"

#include <algorithm>

#include "tensor/cuda/kernels/collectives/ordered_sum_kernels.h"
#include "tensor/device/ops.h"
#include "tensor/errors/error.h"

namespace troupe::tensor::cuda {
namespace {

/// An all-reduce of at most this size is gathered by every member: one exchange instead of two.
constexpr std::int64_t kGatheredBytes = 32 << 10;
constexpr std::int64_t kAlignment = 256;

std::int64_t elements_of(std::span<const Tensor> row) {
  std::int64_t elements = 0;
  for (const Tensor& x : row) elements += x.num_elements();
  return elements;
}

std::int64_t bytes_of(const Tensor& of) {
  return static_cast<std::int64_t>(size_of(of.dtype));
}

Tensor elements(const Tensor& of, std::int64_t begin, std::int64_t count) {
  return {of.as<std::byte>() + begin * bytes_of(of), of.dtype, Shape{count}};
}

}  // namespace

NcclExchange::NcclExchange(NcclCommunicator* communicator, KernelStream& stream,
                           CollectiveSums sums)
    : communicator_(communicator),
      stream_(stream),
      sums_(sums),
      slices_(static_cast<std::size_t>(size())),
      parts_(slices_.size()) {}

void NcclExchange::queue(const CollectiveCall& call) {
  switch (call.operation) {
    case Operation::all_reduce:
      return all_reduce(call);
    case Operation::reduce_scatter:
      return reduce_scatter(call);
    case Operation::all_gather:
      return all_gather(call);
    case Operation::all_to_all:
      return all_to_all(call);
    case Operation::broadcast:
      return broadcast(call);
    case Operation::barrier:
      return barrier();
  }
}

// --- pieces of rows

void NcclExchange::visit(std::span<const Tensor> row, Slice slice, const Visit& visit) {
  std::int64_t first = 0;
  for (const Tensor& x : row) {
    const std::int64_t begin = std::max(first, slice.begin);
    const std::int64_t end = std::min(first + x.num_elements(), slice.begin + slice.size);
    if (begin < end)
      visit({.data = x.as<std::byte>() + (begin - first) * bytes_of(x),
             .offset = begin - slice.begin,
             .size = end - begin});
    first += x.num_elements();
  }
}

void NcclExchange::send(NcclBatch& batch, std::span<const Tensor> row, Slice slice, int to) {
  visit(row, slice, [&](const Piece& piece) {
    batch.send(piece.data, static_cast<std::size_t>(piece.size * bytes_of(row[0])), to);
  });
}

void NcclExchange::receive(NcclBatch& batch, std::span<const Tensor> row, Slice slice, int from) {
  visit(row, slice, [&](const Piece& piece) {
    batch.receive(piece.data, static_cast<std::size_t>(piece.size * bytes_of(row[0])), from);
  });
}

void NcclExchange::copy(const Tensor& from, std::int64_t from_begin, const Tensor& to,
                        std::int64_t to_begin, std::int64_t count) {
  const Tensor a = elements(from, from_begin, count), b = elements(to, to_begin, count);
  if (count > 0 && a.data != b.data) stream_.device().ops().copy(stream_, a, b);
}

// --- what adds nothing

/// What this member has for itself.
void NcclExchange::copy_own(const CollectiveCall& call) {
  const auto self = static_cast<std::size_t>(member());
  const bool sends_all = call.operation == Operation::all_gather;
  copy(call.in[0], sends_all ? 0 : elements_before(call.send_counts, self), call.out[0],
       elements_before(call.receive_counts, self), call.receive_counts[self]);
}

void NcclExchange::all_gather(const CollectiveCall& call) {
  copy_own(call);
  if (size() == 1) return;
  communicator_->queue(stream_.handle(), [&](NcclBatch& batch) {
    for (int other = 0; other < size(); ++other) {
      if (other == member()) continue;
      const auto from = static_cast<std::size_t>(other);
      send(batch, call.in, {0, call.in[0].num_elements()}, other);
      receive(batch, call.out,
              {elements_before(call.receive_counts, from), call.receive_counts[from]}, other);
    }
  });
}

void NcclExchange::all_to_all(const CollectiveCall& call) {
  copy_own(call);
  if (size() == 1) return;
  communicator_->queue(stream_.handle(), [&](NcclBatch& batch) {
    for (int other = 0; other < size(); ++other) {
      if (other == member()) continue;
      const auto with = static_cast<std::size_t>(other);
      send(batch, call.in, {elements_before(call.send_counts, with), call.send_counts[with]},
           other);
      receive(batch, call.out,
              {elements_before(call.receive_counts, with), call.receive_counts[with]}, other);
    }
  });
}

void NcclExchange::broadcast(const CollectiveCall& call) {
  if (size() == 1) return;
  communicator_->queue(stream_.handle(), [&](NcclBatch& batch) {
    for (const Tensor& x : call.out)
      if (x.num_elements() > 0) batch.broadcast(x.data, x.num_bytes(), call.root);
  });
}

void NcclExchange::barrier() {
  if (size() == 1) return;
  void* const number = stream_.scratch(sizeof(std::int32_t));
  communicator_->queue(stream_.handle(), [&](NcclBatch& batch) {
    batch.all_reduce(number, 1, DType::i32, Reduction::max);
  });
}

// --- reductions

/// Whether NCCL's own reductions do what the call asks for, in whatever order they add.
bool NcclExchange::is_of_library(const CollectiveCall& call) const {
  const DType dtype = call.in[0].dtype;
  const bool is_integer = dtype == DType::i32 || dtype == DType::i64;
  if (sums_ != CollectiveSums::library || (is_integer && call.reduction == Reduction::average))
    return false;
  if (call.operation == Operation::all_reduce) return true;
  return call.out[0].dtype == dtype &&
         std::ranges::all_of(call.send_counts, [&](auto n) { return n == call.send_counts[0]; });
}

void NcclExchange::all_reduce(const CollectiveCall& call) {
  const std::int64_t count = elements_of(call.in);
  if (size() == 1 || count == 0) return;
  if (is_of_library(call)) {
    return communicator_->queue(stream_.handle(), [&](NcclBatch& batch) {
      for (const Tensor& x : call.out)
        if (const auto n = static_cast<std::size_t>(x.num_elements()))
          batch.all_reduce(x.data, n, x.dtype, call.reduction);
    });
  }
  const bool is_gathered = count * bytes_of(call.in[0]) <= kGatheredBytes;
  for (std::int64_t m = 0; m < size(); ++m) {
    const std::int64_t begin = is_gathered ? 0 : count * m / size();
    const std::int64_t end = is_gathered ? count : count * (m + 1) / size();
    slices_[static_cast<std::size_t>(m)] = {begin, end - begin};
  }
  reduce_slices(call);
}

void NcclExchange::reduce_scatter(const CollectiveCall& call) {
  const auto self = static_cast<std::size_t>(member());
  if (size() == 1) return copy(call.in[0], 0, call.out[0], 0, call.out[0].num_elements());
  if (is_of_library(call)) {
    if (call.send_counts[self] == 0) return;
    return communicator_->queue(stream_.handle(), [&](NcclBatch& batch) {
      batch.reduce_scatter(call.in[0].data, call.out[0].data,
                           static_cast<std::size_t>(call.send_counts[self]), call.in[0].dtype,
                           call.reduction);
    });
  }
  for (std::size_t m = 0; m < slices_.size(); ++m)
    slices_[m] = {elements_before(call.send_counts, m), call.send_counts[m]};
  reduce_slices(call);
}

/// Reduces this member's slice, part by part, so that the scratch memory has a limit. Results of an
/// all-reduce go to the other members, unless they have them too because all slices are one.
void NcclExchange::reduce_slices(const CollectiveCall& call) {
  const auto self = static_cast<std::size_t>(member());
  const std::int64_t element = bytes_of(call.in[0]);
  const std::int64_t step = static_cast<std::int64_t>(kPartBytes) / element;
  std::int64_t most = 0;
  for (const Slice& slice : slices_) most = std::max(most, slice.size);
  for (std::int64_t done = 0; done < most; done += step) {
    for (std::size_t m = 0; m < slices_.size(); ++m) {
      const std::int64_t left = std::max<std::int64_t>(slices_[m].size - done, 0);
      parts_[m] = {slices_[m].begin + done, std::min(step, left)};
    }
    const std::int64_t stride =
        (parts_[self].size * element + kAlignment - 1) / kAlignment * kAlignment;
    auto* const received =
        static_cast<std::byte*>(stream_.scratch(slices_.size() * static_cast<std::size_t>(stride)));
    gather_values(call.in, received, stride);
    add_values(call, done, received, stride);
    const bool is_gathered = slices_.front().begin == slices_.back().begin;
    if (call.operation == Operation::all_reduce && !is_gathered) spread_results(call.out);
  }
}

/// Sends each member the values of its part, and receives theirs of this one's, as one row each.
void NcclExchange::gather_values(std::span<const Tensor> row, std::byte* to, std::int64_t stride) {
  const Slice own = parts_[static_cast<std::size_t>(member())];
  communicator_->queue(stream_.handle(), [&](NcclBatch& batch) {
    for (int other = 0; other < size(); ++other) {
      if (other == member()) continue;
      send(batch, row, parts_[static_cast<std::size_t>(other)], other);
      const Tensor place{to + other * stride, row[0].dtype, Shape{own.size}};
      // In pieces as they are sent.
      visit(row, own, [&](const Piece& piece) {
        receive(batch, {&place, 1}, {piece.offset, piece.size}, other);
      });
    }
  });
}

void NcclExchange::add_values(const CollectiveCall& call, std::int64_t done,
                              const std::byte* received, std::int64_t stride) {
  const Slice own = parts_[static_cast<std::size_t>(member())];
  visit(call.in, own, [&](const Piece& piece) {
    const bool in_place = call.operation == Operation::all_reduce;
    const Tensor& out = call.out[0];
    launch_ordered_sum(
        {.dtype = call.in[0].dtype,
         .out_dtype = out.dtype,
         .reduction = call.reduction,
         .members = size(),
         .own = member(),
         .own_values = piece.data,
         .received = received + piece.offset * bytes_of(call.in[0]),
         .stride = stride,
         .out = in_place ? piece.data : elements(out, done + piece.offset, piece.size).data,
         .count = piece.size},
        stream_.handle());
  });
}

void NcclExchange::spread_results(std::span<const Tensor> row) {
  communicator_->queue(stream_.handle(), [&](NcclBatch& batch) {
    for (int other = 0; other < size(); ++other) {
      if (other == member()) continue;
      send(batch, row, parts_[static_cast<std::size_t>(member())], other);
      receive(batch, row, parts_[static_cast<std::size_t>(other)], other);
    }
  });
}

}  // namespace troupe::tensor::cuda
