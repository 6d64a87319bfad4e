#include "tensor/cpu/products/cpu_grouped_linear.h"

#include <omp.h>

#include <algorithm>
#include <cstring>

#include "tensor/errors/error.h"

namespace troupe::tensor {
namespace {

constexpr std::int64_t kTile = 128;  // rows of a weight whose gradient a thread computes at a time

/// Calls body(task, thread) for every task, by threads that take the next one as they finish.
template <typename Body>
void for_each_task(int threads, std::int64_t tasks, const Body& body) {
  if (threads == 1 || tasks <= 1) {
    for (std::int64_t task = 0; task < tasks; ++task) body(task, 0);
    return;
  }
#pragma omp parallel for num_threads(threads) schedule(dynamic, 1)
  for (std::int64_t task = 0; task < tasks; ++task) body(task, omp_get_thread_num());
}

ProductShape forward_of(const LinearShape& shape) {
  return {.k = shape.in,
          .n = shape.out,
          .input = shape.dtype,
          .output = shape.output_dtype,
          .b = Layout::packed};
}

ProductShape input_gradient_of(const LinearShape& shape) {
  return {.k = shape.out,
          .n = shape.in,
          .input = shape.dtype,
          .output = shape.dtype,
          .b = Layout::packed};
}

ProductShape weight_gradient_of(const LinearShape& shape, std::int64_t tile, Addend addend) {
  return {.m = tile,
          .n = shape.in,
          .input = shape.dtype,
          .output = DType::f32,
          .a = Layout::transposed,
          .addend = addend};
}

std::size_t most_scratch(std::initializer_list<const std::vector<Product>*> all) {
  std::size_t most = 0;
  for (const auto* products : all)
    for (const Product& product : *products) most = std::max(most, product.scratch_bytes());
  return aligned(most);
}

/// The product for so many rows, in `products` of the numbers of kBlockRows from some on.
Product& product_for(std::vector<Product>& products, std::int64_t rows) {
  const auto place = kBlockRows.end() - std::ranges::find(kBlockRows, rows);
  return *(products.end() - place);
}

std::byte* at(const Tensor& x, std::int64_t row, std::int64_t columns) {
  return x.as<std::byte>() + static_cast<std::size_t>(row * columns) * size_of(x.dtype);
}

}  // namespace

CpuGroupedLinear::CpuGroupedLinear(const GroupedLinearShape& shape, int threads)
    : shape_(check(shape)),
      threads_(threads),
      forward_tasks_(static_cast<std::size_t>(shape.groups) + 1),
      gradient_tasks_(static_cast<std::size_t>(shape.groups) + 1) {
  lanes_.reserve(static_cast<std::size_t>(threads));
  for (int thread = 0; thread < threads; ++thread) lanes_.push_back(make_lane());
}

CpuGroupedLinear::Lane CpuGroupedLinear::make_lane() const {
  Lane lane{.forward = products_of(forward_of(shape_.each), &ProductShape::m)};
  if (!shape_.each.gradients) return lane;
  lane.input = products_of(input_gradient_of(shape_.each), &ProductShape::m);
  if (shape_.each.out >= kTile) lane.weights = weight_products(kTile);
  if (shape_.each.out % kTile != 0) lane.last_weights = weight_products(shape_.each.out % kTile);
  return lane;
}

CpuGroupedLinear::WeightProducts CpuGroupedLinear::weight_products(std::int64_t tile) const {
  const auto with = [&](Addend addend) {
    return products_of(weight_gradient_of(shape_.each, tile, addend), &ProductShape::k);
  };
  return {.first = with(Addend::none), .added = with(Addend::destination)};
}

CpuGroupedLinear::Products CpuGroupedLinear::products_of(ProductShape shape,
                                                         std::int64_t ProductShape::*rows) const {
  Products products;
  products.reserve(kBlockRows.size());
  for (const std::int64_t block : kBlockRows) {
    if (block > shape_.each.rows) continue;
    shape.*rows = block;
    if (products.empty() || shape.b != Layout::packed)
      products.emplace_back(shape, 1);
    else
      products.emplace_back(shape, 1, products.front());
  }
  return products;
}

std::size_t CpuGroupedLinear::copy_bytes() const {
  return aligned(static_cast<std::size_t>(kBlockRows.front() * kTile) * size_of(shape_.each.dtype));
}

std::size_t CpuGroupedLinear::forward_bytes() const {
  return most_scratch({&lanes_.front().forward});
}

std::size_t CpuGroupedLinear::backward_bytes() const {
  if (!shape_.each.gradients) return 0;
  const Lane& lane = lanes_.front();
  return copy_bytes() + most_scratch({&lane.input, &lane.weights.first, &lane.weights.added,
                                      &lane.last_weights.first, &lane.last_weights.added});
}

ScratchBytes CpuGroupedLinear::scratch_bytes() const {
  return {.forward = lanes_.size() * forward_bytes(), .backward = lanes_.size() * backward_bytes()};
}

void CpuGroupedLinear::set_scratch(const Scratch& scratch) {
  auto* forward = static_cast<std::byte*>(scratch.forward);
  auto* backward = static_cast<std::byte*>(scratch.backward);
  for (Lane& lane : lanes_) {
    for (Product& product : lane.forward) product.set_scratch(forward);
    forward += forward_bytes();
    if (!backward || !shape_.each.gradients) continue;
    lane.copy = backward;
    for (Products* products : {&lane.input, &lane.weights.first, &lane.weights.added,
                               &lane.last_weights.first, &lane.last_weights.added})
      for (Product& product : *products) product.set_scratch(backward + copy_bytes());
    backward += backward_bytes();
  }
}

std::size_t CpuGroupedLinear::input_gradient_offset() const {
  return aligned(lanes_.front().forward.front().packed_bytes());
}

std::size_t CpuGroupedLinear::stride() const {
  const Lane& lane = lanes_.front();
  return input_gradient_offset() +
         (shape_.each.gradients ? aligned(lane.input.front().packed_bytes()) : 0);
}

std::size_t CpuGroupedLinear::packed_bytes() const {
  return static_cast<std::size_t>(shape_.groups) * stride();
}

void CpuGroupedLinear::pack(Stream&, const Tensor& w, void* packed) {
  const std::int64_t weight = shape_.each.out * shape_.each.in;
  TROUPE_ASSERT(w.dtype == DType::f32 && w.num_elements() == shape_.groups * weight);
  for_each_task(threads_, shape_.groups, [&](std::int64_t group, int thread) {
    Lane& lane = lanes_[static_cast<std::size_t>(thread)];
    const float* const from = w.as<float>() + group * weight;
    std::byte* const to =
        static_cast<std::byte*>(packed) + static_cast<std::size_t>(group) * stride();
    lane.forward.front().pack(from, Layout::transposed, to);
    if (!shape_.each.gradients) return;
    lane.input.front().pack(from, Layout::plain, to + input_gradient_offset());
  });
}

const std::int32_t* CpuGroupedLinear::offsets_of(const Tensor& offsets, std::int64_t rows) const {
  TROUPE_ASSERT(offsets.dtype == DType::i32 && offsets.num_elements() == shape_.groups + 1);
  const auto* const all = offsets.as<std::int32_t>();
  TROUPE_ASSERT(all[0] == 0 && std::is_sorted(all, all + shape_.groups + 1));
  TROUPE_ASSERT(all[shape_.groups] <= rows && all[shape_.groups] <= shape_.each.rows);
  return all;
}

void CpuGroupedLinear::multiply(const Call& call, const std::int32_t* offsets,
                                std::vector<std::int64_t>& tasks) {
  const auto groups = static_cast<std::size_t>(shape_.groups);
  tasks[0] = 0;
  for (std::size_t group = 0; group < groups; ++group)
    tasks[group + 1] = tasks[group] + row_tasks(offsets[group + 1] - offsets[group]);
  for_each_task(threads_, tasks[groups], [&](std::int64_t task, int thread) {
    const auto after = std::ranges::upper_bound(tasks, task);
    const auto group = static_cast<std::size_t>(after - tasks.begin()) - 1;
    const RowRange range = rows_of_task(offsets[group + 1] - offsets[group], task - tasks[group]);
    const std::int64_t first = offsets[group];
    Products& products = lanes_[static_cast<std::size_t>(thread)].*call.products;
    for_each_row_block(range.begin, range.end, [&](const RowBlock& block) {
      product_for(products, block.rows)
          .run(at(call.from, first + block.first, call.from_columns),
               call.packed + group * stride(), at(call.to, first + block.first, call.to_columns));
    });
  });
}

void CpuGroupedLinear::forward(Stream&, const Tensor& x, const Tensor& offsets, const void* packed,
                               const Tensor& y) {
  const LinearShape& each = shape_.each;
  const std::int64_t rows = x.num_elements() / each.in;
  TROUPE_ASSERT(x.dtype == each.dtype && y.dtype == each.output_dtype);
  TROUPE_ASSERT(x.num_elements() == rows * each.in && y.num_elements() == rows * each.out);
  multiply({.products = &Lane::forward,
            .from = x,
            .from_columns = each.in,
            .to = y,
            .to_columns = each.out,
            .packed = static_cast<const std::byte*>(packed)},
           offsets_of(offsets, rows), forward_tasks_);
}

void CpuGroupedLinear::input_gradient(Stream&, const Tensor& dy, const Tensor& offsets,
                                      const void* packed, const Tensor& dx) {
  const LinearShape& each = shape_.each;
  const std::int64_t rows = dx.num_elements() / each.in;
  TROUPE_ASSERT(each.gradients && dy.dtype == each.dtype && dx.dtype == each.dtype);
  TROUPE_ASSERT(dx.num_elements() == rows * each.in && dy.num_elements() == rows * each.out);
  multiply({.products = &Lane::input,
            .from = dy,
            .from_columns = each.out,
            .to = dx,
            .to_columns = each.in,
            .packed = static_cast<const std::byte*>(packed) + input_gradient_offset()},
           offsets_of(offsets, rows), gradient_tasks_);
}

/// The gradient of the rows of a weight from `column` of dy on, which `dw` has. A block's gradients
/// are copied side by side, with zeros for rows that are in a block before.
void CpuGroupedLinear::tile_gradient(Lane& lane, const Tensor& dy, const Tensor& x,
                                     const RowRange& rows, std::int64_t column, float* dw,
                                     Gradient gradient) const {
  const LinearShape& each = shape_.each;
  const std::int64_t tile = std::min(kTile, each.out - column);
  const std::size_t bytes = static_cast<std::size_t>(tile) * size_of(each.dtype);
  const std::size_t offset = static_cast<std::size_t>(column) * size_of(each.dtype);
  if (gradient == Gradient::first && rows.begin == rows.end) std::fill_n(dw, tile * each.in, 0.0f);
  WeightProducts& products = tile == kTile ? lane.weights : lane.last_weights;
  for_each_row_block(0, rows.end - rows.begin, [&](const RowBlock& block) {
    const std::int64_t first = rows.begin + block.first;
    auto* to = static_cast<std::byte*>(lane.copy);
    std::memset(to, 0, static_cast<std::size_t>(block.done) * bytes);
    for (std::int64_t row = block.done; row < block.rows; ++row)
      std::memcpy(to + static_cast<std::size_t>(row) * bytes,
                  at(dy, first + row, each.out) + offset, bytes);
    const bool is_first = gradient == Gradient::first && block.first == 0;
    product_for(is_first ? products.first : products.added, block.rows)
        .run(lane.copy, at(x, first, each.in), dw);
  });
}

void CpuGroupedLinear::weight_gradient(Stream&, const Tensor& dy, const Tensor& x,
                                       const Tensor& offsets, const Tensor& dw, Gradient gradient) {
  const LinearShape& each = shape_.each;
  const std::int64_t rows = x.num_elements() / each.in;
  TROUPE_ASSERT(each.gradients && dy.dtype == each.dtype && x.dtype == each.dtype);
  TROUPE_ASSERT(x.num_elements() == rows * each.in && dy.num_elements() == rows * each.out);
  TROUPE_ASSERT(dw.dtype == DType::f32);
  TROUPE_ASSERT(dw.num_elements() == shape_.groups * each.out * each.in);
  const std::int32_t* const all = offsets_of(offsets, rows);
  const std::int64_t tiles = (each.out + kTile - 1) / kTile;
  for_each_task(threads_, shape_.groups * tiles, [&](std::int64_t task, int thread) {
    const std::int64_t group = task / tiles, column = task % tiles * kTile;
    float* const to = dw.as<float>() + (group * each.out + column) * each.in;
    tile_gradient(lanes_[static_cast<std::size_t>(thread)], dy, x, {all[group], all[group + 1]},
                  column, to, gradient);
  });
}

}  // namespace troupe::tensor
