#include "tensor/device/looped_linear.h"

#include <fmt/format.h>

#include "tensor/device/ops.h"
#include "tensor/errors/error.h"

namespace troupe::tensor {
namespace {

constexpr std::size_t kAlignment = 256;

/// Rows [first, first + rows) of x[., columns].
Tensor rows_of(const Tensor& x, std::int64_t first, std::int64_t rows, std::int64_t columns) {
  return {x.as<std::byte>() + static_cast<std::size_t>(first * columns) * size_of(x.dtype),
          x.dtype,
          {rows, columns}};
}

/// Powers of two up to `rows`, descending.
std::vector<std::int64_t> blocks_up_to(std::int64_t rows) {
  std::int64_t block = 1;
  while (2 * block <= rows) block *= 2;
  std::vector<std::int64_t> blocks;
  for (; block > 0; block /= 2) blocks.push_back(block);
  return blocks;
}

LinearShape shape_of_blocks(LinearShape shape, const std::vector<std::int64_t>& blocks) {
  shape.rows = blocks.front();
  shape.row_step = 0;
  shape.other_rows.assign(blocks.begin() + 1, blocks.end());
  return shape;
}

}  // namespace

const GroupedLinearShape& check(const GroupedLinearShape& shape) {
  check(shape.each);
  if (shape.groups >= 1) return shape;
  throw Error(ErrorKind::manifest,
              fmt::format("a linear layer of {} groups; at least 1 is needed", shape.groups));
}

std::unique_ptr<GroupedLinear> Device::make_grouped_linear(const GroupedLinearShape& shape) {
  return std::make_unique<LoopedLinear>(*this, shape);
}

LoopedLinear::LoopedLinear(Device& device, const GroupedLinearShape& shape)
    : shape_(check(shape)),
      blocks_(blocks_up_to(shape.each.rows)),
      linear_(device.make_linear(shape_of_blocks(shape.each, blocks_))) {
  if (device.host_reads_memory()) return;
  const auto bytes = static_cast<std::size_t>(shape.groups + 1) * sizeof(std::int32_t);
  forward_offsets_ = device.allocate(bytes, MemoryKind::pinned);
  if (shape.each.gradients) gradient_offsets_ = device.allocate(bytes, MemoryKind::pinned);
}

std::size_t LoopedLinear::stride() const {
  return (linear_->packed_bytes() + kAlignment - 1) / kAlignment * kAlignment;
}

std::size_t LoopedLinear::packed_bytes() const {
  return static_cast<std::size_t>(shape_.groups) * stride();
}

void LoopedLinear::pack(Stream& stream, const Tensor& w, void* packed) {
  const auto [in, out] = std::pair(shape_.each.in, shape_.each.out);
  TROUPE_ASSERT(w.dtype == DType::f32 && w.num_elements() == shape_.groups * out * in);
  for (std::int64_t group = 0; group < shape_.groups; ++group)
    linear_->pack(stream, rows_of(w, group * out, out, in),
                  static_cast<std::byte*>(packed) + static_cast<std::size_t>(group) * stride());
}

Tensor LoopedLinear::packed_copy(void* packed) const {
  const Tensor first = linear_->packed_copy(packed);
  if (!first || linear_->packed_bytes() != stride()) return {};
  return {packed, first.dtype, {shape_.groups * shape_.each.out, shape_.each.in}};
}

const std::int32_t* LoopedLinear::offsets_of(Stream& stream, const Tensor& offsets,
                                             const Buffer& memory) const {
  TROUPE_ASSERT(offsets.dtype == DType::i32 && offsets.num_elements() == shape_.groups + 1);
  if (!memory.data()) return offsets.as<std::int32_t>();
  stream.device().ops().copy(stream, offsets, memory.view(DType::i32, offsets.shape));
  stream.synchronize();
  return static_cast<const std::int32_t*>(memory.data());
}

template <typename Body>
void LoopedLinear::for_each_block(const std::int32_t* offsets, const Body& body) const {
  for (std::int64_t group = 0; group < shape_.groups; ++group) {
    std::int64_t row = offsets[group];
    const std::int64_t end = offsets[group + 1];
    for (const std::int64_t block : blocks_)
      for (; end - row >= block; row += block) body(group, row, block);
  }
}

void LoopedLinear::forward(Stream& stream, const Tensor& x, const Tensor& offsets,
                           const void* packed, const Tensor& y) {
  const auto [in, out] = std::pair(shape_.each.in, shape_.each.out);
  for_each_block(
      offsets_of(stream, offsets, forward_offsets_),
      [&](std::int64_t group, std::int64_t row, std::int64_t rows) {
        const void* const weight =
            static_cast<const std::byte*>(packed) + static_cast<std::size_t>(group) * stride();
        linear_->forward(stream, rows_of(x, row, rows, in), weight, rows_of(y, row, rows, out));
      });
}

void LoopedLinear::input_gradient(Stream& stream, const Tensor& dy, const Tensor& offsets,
                                  const void* packed, const Tensor& dx) {
  const auto [in, out] = std::pair(shape_.each.in, shape_.each.out);
  for_each_block(offsets_of(stream, offsets, gradient_offsets_),
                 [&](std::int64_t group, std::int64_t row, std::int64_t rows) {
                   const void* const weight = static_cast<const std::byte*>(packed) +
                                              static_cast<std::size_t>(group) * stride();
                   linear_->input_gradient(stream, rows_of(dy, row, rows, out), weight,
                                           rows_of(dx, row, rows, in));
                 });
}

void LoopedLinear::weight_gradient(Stream& stream, const Tensor& dy, const Tensor& x,
                                   const Tensor& offsets, const Tensor& dw, Gradient gradient) {
  const auto [in, out] = std::pair(shape_.each.in, shape_.each.out);
  TROUPE_ASSERT(dw.dtype == DType::f32 && dw.num_elements() == shape_.groups * out * in);
  const std::int32_t* const all = offsets_of(stream, offsets, gradient_offsets_);
  for (std::int64_t group = 0; group < shape_.groups; ++group) {
    if (gradient == Gradient::first && all[group] == all[group + 1])
      stream.device().ops().fill_zero(stream, rows_of(dw, group * out, out, in));
  }
  for_each_block(all, [&](std::int64_t group, std::int64_t row, std::int64_t rows) {
    const bool is_first = gradient == Gradient::first && row == all[group];
    linear_->weight_gradient(stream, rows_of(dy, row, rows, out), rows_of(x, row, rows, in),
                             rows_of(dw, group * out, out, in),
                             is_first ? Gradient::first : Gradient::added);
  });
}

}  // namespace troupe::tensor
