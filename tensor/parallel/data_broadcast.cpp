#include "tensor/parallel/data_broadcast.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "tensor/device/ops.h"
#include "tensor/errors/error.h"

namespace troupe::tensor {
namespace {

// What is sent of a shape: its rank, then its dims; for a tensor of a wrong dtype kWrongDType, then
// that dtype.
constexpr std::int64_t kSlots = 1 + Shape::kMaxRank;
constexpr std::int64_t kWrongDType = -1;

void write_shape(const Tensor& x, DType dtype, std::int64_t* slots) {
  std::fill_n(slots, kSlots, 0);
  if (x.dtype != dtype) {
    slots[0] = kWrongDType;
    slots[1] = static_cast<std::int64_t>(x.dtype);
    return;
  }
  slots[0] = x.shape.rank();
  std::ranges::copy(x.shape.dims(), slots + 1);
}

Shape read_shape(const std::int64_t* slots, std::size_t index, DType dtype) {
  if (slots[0] == kWrongDType) {
    throw Error(ErrorKind::data,
                fmt::format("tensor {} of the data to broadcast is {}; all must be {}", index,
                            name_of(static_cast<DType>(slots[1])), name_of(dtype)));
  }
  return Shape(std::span(slots + 1, static_cast<std::size_t>(slots[0])));
}

}  // namespace

std::span<const Tensor> DataBroadcast::run(Stream& stream, std::span<const Tensor> data,
                                           std::size_t count, DType dtype) {
  lay_out(exchange_shapes(stream, data, count, dtype), count, dtype);
  if (group_.member() == 0) {
    for (std::size_t i = 0; i < count; ++i) device_.ops().copy(stream, data[i], tensors_[i]);
  }
  group_.broadcast(stream, all_, 0)->wait(stream);
  return tensors_;
}

Tensor DataBroadcast::exchange_shapes(Stream& stream, std::span<const Tensor> data,
                                      std::size_t count, DType dtype) {
  const std::int64_t slots = static_cast<std::int64_t>(count) * kSlots;
  const Tensor host = memory(host_shapes_, MemoryKind::pinned, DType::i64, slots);
  const Tensor shapes = memory(shapes_, MemoryKind::device, DType::i64, slots);
  if (group_.member() == 0) {
    TROUPE_ASSERT(data.size() == count);
    for (std::size_t i = 0; i < count; ++i) {
      write_shape(data[i], dtype, host.as<std::int64_t>() + static_cast<std::int64_t>(i) * kSlots);
    }
    device_.ops().copy(stream, host, shapes);
  }
  group_.broadcast(stream, shapes, 0)->wait(stream);
  device_.ops().copy(stream, shapes, host);
  stream.synchronize();
  return host;
}

void DataBroadcast::lay_out(const Tensor& shapes, std::size_t count, DType dtype) {
  tensors_.clear();
  std::int64_t elements = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const auto* slots = shapes.as<std::int64_t>() + static_cast<std::int64_t>(i) * kSlots;
    tensors_.push_back({nullptr, dtype, read_shape(slots, i, dtype)});
    elements += tensors_.back().num_elements();
  }
  all_ = memory(flat_, MemoryKind::device, dtype, elements);
  std::byte* next = all_.as<std::byte>();
  for (Tensor& tensor : tensors_) {
    tensor.data = next;
    next += tensor.num_bytes();
  }
}

Tensor DataBroadcast::memory(Buffer& buffer, MemoryKind kind, DType dtype, std::int64_t elements) {
  const auto bytes = static_cast<std::size_t>(elements) * size_of(dtype);
  if (buffer.bytes() < bytes || !buffer.data())
    buffer = device_.allocate(std::max<std::size_t>(1, bytes), kind);
  return buffer.view(dtype, {elements});
}

}  // namespace troupe::tensor
