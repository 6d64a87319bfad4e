// Measures the grouped products of a layer with experts, and the same products by oneDNN alone, in
// one process.
//
//   expert_bench float32|bfloat16 THREADS [TOKENS]
//
// The layer has 8 experts of the sizes of the common model (workload.h), of which each token takes
// 2 at random. Prints "ready GFLOP". Then every line on standard input is an order, answered with
// the seconds it took: "grouped" runs the products of a forward and a backward, each for all
// experts in one call, "products" those of every expert alone.

#include <omp.h>

#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "tensor/cpu/products/product.h"
#include "tensor/device/device.h"
#include "tensor/device/grouped_linear.h"
#include "tensor/errors/error.h"
#include "tensor/values/random.h"
#include "tests/bench/product_list.h"
#include "tests/bench/timing.h"
#include "tests/bench/workload.h"

namespace troupe::bench {
namespace {

using tensor::DType;
using tensor::Tensor;

constexpr std::int64_t kExperts = 8, kChosen = 2;

/// Rows of each expert; every token has two different ones.
std::vector<std::int64_t> draw_counts(std::int64_t tokens) {
  std::vector<std::int64_t> counts(kExperts);
  const tensor::Random random(1, "experts");
  for (std::int64_t t = 0; t < tokens; ++t) {
    const std::uint32_t word = random.word(static_cast<std::uint64_t>(t));
    const std::uint32_t first = word % kExperts, step = 1 + word / kExperts % (kExperts - 1);
    ++counts[first];
    ++counts[(first + step) % kExperts];
  }
  return counts;
}

/// One of the layer's two weights: its three products, of all experts.
class GroupedWeight {
 public:
  GroupedWeight(tensor::Device& device, const tensor::GroupedLinearShape& shape)
      : device_(device), linear_(device.make_grouped_linear(shape)) {
    const auto [rows, in, out] = std::tuple(shape.each.rows, shape.each.in, shape.each.out);
    x_ = matrix(shape.each.dtype, rows, in);
    y_ = matrix(shape.each.dtype, rows, out);
    dx_ = matrix(shape.each.dtype, rows, in);
    dy_ = matrix(shape.each.dtype, rows, out);
    dw_ = matrix(DType::f32, shape.groups * out, in);
    const Tensor w = matrix(DType::f32, shape.groups * out, in);
    packed_ = device.allocate(linear_->packed_bytes(), tensor::MemoryKind::device);
    const auto [forward, backward] = linear_->scratch_bytes();
    for (const std::size_t bytes : {forward, backward})
      buffers_.push_back(device.allocate(bytes, tensor::MemoryKind::device));
    linear_->set_scratch(
        {.forward = buffers_[buffers_.size() - 2].data(), .backward = buffers_.back().data()});
    linear_->pack(*stream_, w, packed_.data());
  }

  void forward(const Tensor& offsets) {
    linear_->forward(*stream_, x_, offsets, packed_.data(), y_);
  }
  void backward(const Tensor& offsets) {
    linear_->input_gradient(*stream_, dy_, offsets, packed_.data(), dx_);
    linear_->weight_gradient(*stream_, dy_, x_, offsets, dw_, tensor::Gradient::added);
  }

 private:
  /// Small random values.
  Tensor matrix(DType dtype, std::int64_t rows, std::int64_t columns) {
    const auto bytes = static_cast<std::size_t>(rows * columns) * size_of(dtype);
    buffers_.push_back(device_.allocate(bytes, tensor::MemoryKind::device));
    const Tensor x = buffers_.back().view(dtype, {rows, columns});
    const tensor::Random random(1, "values");
    for (std::int64_t i = 0; i < x.num_elements(); ++i) {
      const auto value = static_cast<float>(static_cast<std::int32_t>(
                             random.word(static_cast<std::uint64_t>(i)))) *
                         0x1p-36f;
      if (dtype == DType::f32)
        x.as<float>()[i] = value;
      else
        x.as<tensor::BFloat16>()[i] = tensor::to_bfloat16(value);
    }
    return x;
  }

  tensor::Device& device_;
  std::unique_ptr<tensor::Stream> stream_ = device_.make_stream();
  std::unique_ptr<tensor::GroupedLinear> linear_;
  std::vector<tensor::Buffer> buffers_;
  tensor::Buffer packed_;
  Tensor x_, y_, dx_, dy_, dw_;
};

class GroupedLayer {
 public:
  GroupedLayer(const Workload& workload, const std::vector<std::int64_t>& counts, int threads)
      : device_(tensor::make_cpu_device(threads)),
        in_(*device_, shape_of(workload, counts, workload.model.hidden_size,
                               2 * workload.model.intermediate_size)),
        out_(*device_, shape_of(workload, counts, workload.model.intermediate_size,
                                workload.model.hidden_size)) {
    for (const std::int64_t count : counts)
      offsets_.push_back(offsets_.back() + static_cast<std::int32_t>(count));
  }

  void run() {
    const Tensor offsets{offsets_.data(), DType::i32, {kExperts + 1}};
    in_.forward(offsets);
    out_.forward(offsets);
    out_.backward(offsets);
    in_.backward(offsets);
  }

 private:
  static tensor::GroupedLinearShape shape_of(const Workload& workload,
                                             const std::vector<std::int64_t>& counts,
                                             std::int64_t in, std::int64_t out) {
    std::int64_t rows = 0;
    for (const std::int64_t count : counts) rows += count;
    return {.groups = kExperts,
            .each = {.rows = rows,
                     .in = in,
                     .out = out,
                     .dtype = workload.model.dtype,
                     .output_dtype = workload.model.dtype}};
  }

  std::unique_ptr<tensor::Device> device_;
  GroupedWeight in_, out_;
  std::vector<std::int32_t> offsets_{0};
};

/// The three products of one expert's weight.
struct Weight {
  Matrices w, dw, x, y, dx, dy;
};

/// The same products, an expert's rows at once.
ProductList single_products(const Workload& workload, const std::vector<std::int64_t>& counts) {
  using DataType = ProductList::DataType;
  const bool is_bf16 = workload.model.dtype == DType::bf16 && !tensor::multiplies_bf16_as_f32();
  const DataType type = is_bf16 ? DataType::bf16 : DataType::f32;
  const std::int64_t hidden = workload.model.hidden_size, ffn = workload.model.intermediate_size;
  ProductList list;
  std::vector<Weight> ins, outs;
  const auto make = [&](std::int64_t rows, std::int64_t in, std::int64_t out) {
    return Weight{.w = list.allocate(type, {out, in}),
                  .dw = list.allocate(DataType::f32, {out, in}),
                  .x = list.allocate(type, {rows, in}),
                  .y = list.allocate(type, {rows, out}),
                  .dx = list.allocate(type, {rows, in}),
                  .dy = list.allocate(type, {rows, out})};
  };
  for (const std::int64_t rows : counts) {
    ins.push_back(make(rows, hidden, 2 * ffn));
    outs.push_back(make(rows, ffn, hidden));
  }
  for (const auto* weights : {&ins, &outs})
    for (const Weight& one : *weights) list.multiply_packed(one.x, one.w.transposed(), one.y);
  for (const auto* weights : {&outs, &ins}) {
    for (const Weight& one : *weights) list.multiply_packed(one.dy, one.w, one.dx);
    for (const Weight& one : *weights)
      list.multiply(one.dy.transposed(), one.x, one.dw, ProductList::Write::add);
  }
  return list;
}

void serve(const Workload& workload, std::int64_t tokens, int threads) {
  omp_set_num_threads(threads);
  const std::vector<std::int64_t> counts = draw_counts(tokens);
  GroupedLayer grouped(workload, counts, threads);
  ProductList products = single_products(workload, counts);
  grouped.run();
  products.run();
  std::cout << "ready " << products.gflop() << std::endl;
  for (std::string order; std::getline(std::cin, order);) {
    if (order == "grouped")
      std::cout << seconds_of([&] { grouped.run(); }) << std::endl;
    else if (order == "products")
      std::cout << seconds_of([&] { products.run(); }) << std::endl;
    else
      throw Error(ErrorKind::usage, "'" + order + "' is no order: grouped or products");
  }
}

}  // namespace
}  // namespace troupe::bench

int main(int argc, char** argv) {
  try {
    if (argc < 3 || argc > 4)
      throw troupe::Error(troupe::ErrorKind::usage, "usage: expert_bench DTYPE THREADS [TOKENS]");
    const troupe::bench::Workload workload = troupe::bench::measured_workload(argv[1]);
    const std::int64_t tokens = argc > 3 ? std::stoll(argv[3]) : workload.tokens();
    troupe::bench::serve(workload, tokens, std::stoi(argv[2]));
    return 0;
  } catch (const std::exception& error) {
    std::cerr << "expert_bench: " << error.what() << '\n';
    return 1;
  }
}
