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
/// A slice has so many parts, unless they would be smaller than it takes to send one, or larger
/// than the scratch memory has room for.
constexpr std::int64_t kPartsWanted = 4, kLeastPartBytes = 512 << 10;
/// No part.
constexpr std::int64_t kNone = -1;

std::int64_t divide_up(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}

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
                           KernelStream& adding, CollectiveSums sums)
    : communicator_(communicator),
      stream_(stream),
      adding_(adding),
      sums_(sums),
      slices_(static_cast<std::size_t>(size())) {
  for (auto* const events : {&gathered_, &added_})
    for (auto& event : *events) event = stream.device().make_event();
}

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

/// Reduces this member's slice. Results of an all-reduce go to the other members, unless they have
/// them too because all slices are one.
void NcclExchange::reduce_slices(const CollectiveCall& call) {
  const std::int64_t element = bytes_of(call.in[0]);
  std::int64_t most = 0;
  for (const Slice& slice : slices_) most = std::max(most, slice.size);
  if (most == 0) return;
  step_ = std::clamp(divide_up(most, kPartsWanted), kLeastPartBytes / element,
                     static_cast<std::int64_t>(kPartBytes) / element);
  num_parts_ = divide_up(most, step_);
  stride_ = divide_up(part_of(member(), 0).size * element, kAlignment) * kAlignment;
  const auto at_once = std::min<std::int64_t>(num_parts_, kPartsAtOnce);
  received_ = static_cast<std::byte*>(
      stream_.scratch(static_cast<std::size_t>(at_once * size() * stride_)));
  const bool is_gathered = slices_.front().begin == slices_.back().begin;
  const bool spreads = call.operation == Operation::all_reduce && !is_gathered;
  exchange(call, 0, kNone);
  if (num_parts_ == 1)
    add_values(call, 0, stream_);
  else
    reduce_parts(call, spreads);
  if (spreads) exchange(call, kNone, num_parts_ - 1);
}

/// Adds all parts, beside the exchange of the others, and spreads the results of all but the last.
void NcclExchange::reduce_parts(const CollectiveCall& call, bool spreads) {
  const auto of = [](auto& events, std::int64_t part) -> Event& {
    return *events[static_cast<std::size_t>(part) % kPartsAtOnce];
  };
  try {
    for (std::int64_t part = 0; part < num_parts_; ++part) {
      of(gathered_, part).record(stream_);
      of(gathered_, part).wait(adding_);
      add_values(call, part, adding_);
      of(added_, part).record(adding_);
      // The next part takes the memory of the one before, whose results go now.
      if (part > 0) of(added_, part - 1).wait(stream_);
      exchange(call, part + 1 < num_parts_ ? part + 1 : kNone,
               spreads && part > 0 ? part - 1 : kNone);
    }
  } catch (...) {  // whose sums may be under way
    of(added_, 0).record(adding_);
    of(added_, 0).wait(stream_);
    throw;
  }
  of(added_, num_parts_ - 1).wait(stream_);
}

NcclExchange::Slice NcclExchange::part_of(int member, std::int64_t part) const {
  const Slice& slice = slices_[static_cast<std::size_t>(member)];
  const std::int64_t done = std::min(part * step_, slice.size);
  return {slice.begin + done, std::min(step_, slice.size - done)};
}

/// The others' values of a part, a row each.
std::byte* NcclExchange::received(std::int64_t part) const {
  return received_ + part % static_cast<std::int64_t>(kPartsAtOnce) * size() * stride_;
}

/// Exchanges the values of one part and the results of another at once.
void NcclExchange::exchange(const CollectiveCall& call, std::int64_t gathered,
                            std::int64_t spread) {
  if (gathered == kNone && spread == kNone) return;
  communicator_->queue(stream_.handle(), [&](NcclBatch& batch) {
    if (gathered != kNone) gather_values(batch, call.in, gathered);
    if (spread != kNone) spread_results(batch, call.out, spread);
  });
}

/// Sends each member the values of its part, and receives theirs of this one's.
void NcclExchange::gather_values(NcclBatch& batch, std::span<const Tensor> row, std::int64_t part) {
  const Slice own = part_of(member(), part);
  for (int other = 0; other < size(); ++other) {
    if (other == member()) continue;
    send(batch, row, part_of(other, part), other);
    const Tensor place{received(part) + other * stride_, row[0].dtype, Shape{own.size}};
    // In pieces as they are sent.
    visit(row, own, [&](const Piece& piece) {
      receive(batch, {&place, 1}, {piece.offset, piece.size}, other);
    });
  }
}

void NcclExchange::add_values(const CollectiveCall& call, std::int64_t part, KernelStream& stream) {
  visit(call.in, part_of(member(), part), [&](const Piece& piece) {
    const bool in_place = call.operation == Operation::all_reduce;
    const Tensor& out = call.out[0];
    launch_ordered_sum(
        {.dtype = call.in[0].dtype,
         .out_dtype = out.dtype,
         .reduction = call.reduction,
         .members = size(),
         .own = member(),
         .own_values = piece.data,
         .received = received(part) + piece.offset * bytes_of(call.in[0]),
         .stride = stride_,
         .out = in_place ? piece.data : elements(out, part * step_ + piece.offset, piece.size).data,
         .count = piece.size},
        stream.handle());
  });
}

void NcclExchange::spread_results(NcclBatch& batch, std::span<const Tensor> row,
                                  std::int64_t part) {
  for (int other = 0; other < size(); ++other) {
    if (other == member()) continue;
    send(batch, row, part_of(member(), part), other);
    receive(batch, row, part_of(other, part), other);
  }
}

}  // namespace troupe::tensor::cuda
