#include "tests/bench/product_list.h"

#include <cstring>
#include <utility>

namespace troupe::bench {
namespace {

using dnnl::memory;

memory::desc describe(const Matrices& m) {
  return {m.dims, m.type, m.strides};
}

dnnl::matmul::primitive_desc describe_product(const memory::desc& a, const memory::desc& b,
                                              const memory::desc& c, ProductList::Write write,
                                              const dnnl::engine& engine) {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  if (write == ProductList::Write::add) {
    dnnl::post_ops add;
    add.append_sum(1.0f);
    attributes.set_post_ops(add);
  }
  return {{a, b, c}, attributes, engine};
}

}  // namespace

Matrices Matrices::transposed() const {
  Matrices result = *this;
  const std::size_t rank = dims.size();
  std::swap(result.dims[rank - 1], result.dims[rank - 2]);
  std::swap(result.strides[rank - 1], result.strides[rank - 2]);
  return result;
}

Matrices Matrices::rows(std::int64_t first, std::int64_t count) const {
  Matrices result = *this;
  const std::size_t dim = dims.size() - 2;
  const auto offset = static_cast<std::size_t>(first * strides[dim]);
  result.data = static_cast<std::byte*>(data) + offset * memory::data_type_size(type);
  result.dims[dim] = count;
  return result;
}

memory ProductList::own(const memory::desc& description) {
  return buffers_.emplace_back(description, engine_);
}

Matrices ProductList::allocate(DataType type, memory::dims dims) {
  memory::dims strides(dims.size(), 1);
  for (std::size_t i = dims.size() - 1; i > 0; --i) strides[i - 1] = strides[i] * dims[i];
  const std::size_t elements = static_cast<std::size_t>(strides[0] * dims[0]);
  const memory buffer = own({dims, type, strides});
  auto* bytes = static_cast<std::byte*>(buffer.get_data_handle());
  const std::size_t width = memory::data_type_size(type);
  for (std::size_t i = 0; i < elements; ++i) {
    random_state_ = random_state_ * 1664525u + 1013904223u;
    const float value = static_cast<float>(static_cast<std::int32_t>(random_state_)) * 0x1p-36f;
    // A bfloat16 is the upper half of a little-endian float32.
    std::memcpy(bytes + i * width,
                reinterpret_cast<const std::byte*>(&value) + sizeof value - width, width);
  }
  return {bytes, type, std::move(dims), std::move(strides)};
}

void ProductList::multiply(const Matrices& a, const Matrices& b, const Matrices& c, Write write) {
  const auto product = describe_product(describe(a), describe(b), describe(c), write, engine_);
  append(product, a, memory(describe(b), engine_, b.data), c);
}

void ProductList::multiply_packed(const Matrices& a, const Matrices& w, const Matrices& c) {
  const memory::desc any(w.dims, w.type, memory::format_tag::any);
  const auto product = describe_product(describe(a), any, describe(c), Write::overwrite, engine_);
  memory plain(describe(w), engine_, w.data);
  memory packed = own(product.weights_desc());
  dnnl::reorder(plain, packed).execute(stream_, plain, packed);
  append(product, a, packed, c);
}

void ProductList::append(const dnnl::matmul::primitive_desc& product, const Matrices& a,
                         const memory& b, const Matrices& c) {
  const memory::desc scratchpad = product.scratchpad_desc();
  if (!scratchpad_ || scratchpad_.get_desc().get_size() < scratchpad.get_size()) {
    scratchpad_ = own(scratchpad);
  }
  products_.push_back({dnnl::matmul(product),
                       {{DNNL_ARG_SRC, memory(describe(a), engine_, a.data)},
                        {DNNL_ARG_WEIGHTS, b},
                        {DNNL_ARG_DST, memory(describe(c), engine_, c.data)},
                        {DNNL_ARG_SCRATCHPAD, memory(scratchpad, engine_, nullptr)}}});
  double multiplications = static_cast<double>(a.dims.back());
  for (const auto dim : c.dims) multiplications *= static_cast<double>(dim);
  flop_ += 2 * multiplications;
}

void ProductList::run() {
  // The products share one scratchpad, as large as the largest needs, which may have grown and
  // moved since they were added.
  for (Product& product : products_) {
    product.arguments[DNNL_ARG_SCRATCHPAD].set_data_handle(scratchpad_.get_data_handle());
  }
  for (const Product& product : products_) product.primitive.execute(stream_, product.arguments);
  stream_.wait();
}

}  // namespace troupe::bench
