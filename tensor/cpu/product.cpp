#include "tensor/cpu/product.h"

#include <fmt/format.h>
#include <omp.h>

#include "tensor/error.h"

namespace troupe::tensor {
namespace {

using dnnl::memory;

/// oneDNN asks OpenMP how many threads there are, when it prepares a primitive and when it runs
/// one.
class ThreadCount {
 public:
  explicit ThreadCount(int threads) : before_(omp_get_max_threads()) {
    omp_set_num_threads(threads);
  }
  ~ThreadCount() { omp_set_num_threads(before_); }
  ThreadCount(const ThreadCount&) = delete;
  ThreadCount& operator=(const ThreadCount&) = delete;

 private:
  const int before_;
};

memory::data_type type_of(DType dtype) {
  TROUPE_ASSERT(dtype == DType::f32 || dtype == DType::bf16);
  return dtype == DType::f32 ? memory::data_type::f32 : memory::data_type::bf16;
}

memory::desc describe(std::int64_t rows, std::int64_t columns, DType dtype, Layout layout) {
  const memory::dims dims{rows, columns};
  switch (layout) {
    case Layout::plain:
      return {dims, type_of(dtype), memory::dims{columns, 1}};
    case Layout::transposed:
      return {dims, type_of(dtype), memory::dims{1, rows}};
    case Layout::packed:
      return {dims, type_of(dtype), memory::format_tag::any};
  }
  assert_failed("layout is a Layout", __FILE__, __LINE__);
}

dnnl::matmul::primitive_desc describe_product(const ProductShape& shape, const memory::desc& b,
                                              const dnnl::engine& engine) try {
  const memory::desc c = describe(shape.m, shape.n, shape.output, Layout::plain);
  dnnl::post_ops post;
  if (shape.addend == Addend::destination) post.append_sum();
  if (shape.addend == Addend::matrix) post.append_binary(dnnl::algorithm::binary_add, c);
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  attributes.set_post_ops(post);
  const memory::desc a = describe(shape.m, shape.k, shape.input, shape.a);
  return {{a, b, c}, attributes, engine};
} catch (const dnnl::error& error) {
  throw Error(
      ErrorKind::manifest,
      fmt::format("oneDNN cannot multiply [{}, {}] by [{}, {}] of {} on this processor ({}); "
                  "float32 runs everywhere",
                  shape.m, shape.k, shape.k, shape.n, name_of(shape.input), error.what()));
}

void bind(memory& memory, const void* data) {
  memory.set_data_handle(const_cast<void*>(data));
}

}  // namespace

Product::Product(const ProductShape& shape, int threads)
    : Product(shape, threads, describe(shape.k, shape.n, shape.input, shape.b)) {}

Product::Product(const ProductShape& shape, int threads, const Product& packed_like)
    : Product(shape, threads, packed_like.b_.get_desc()) {}

Product::Product(const ProductShape& shape, int threads, const memory::desc& b)
    : shape_(shape), threads_(threads), engine_(dnnl::engine::kind::cpu, 0), stream_(engine_) {
  const ThreadCount thread_count(threads_);
  const dnnl::matmul::primitive_desc description = describe_product(shape, b, engine_);
  matmul_ = dnnl::matmul(description);
  a_ = unbound(description.src_desc());
  b_ = unbound(description.weights_desc());
  c_ = unbound(description.dst_desc());
  scratch_ = unbound(description.scratchpad_desc());
  arguments_ = {{DNNL_ARG_SRC, a_},
                {DNNL_ARG_WEIGHTS, b_},
                {DNNL_ARG_DST, c_},
                {DNNL_ARG_SCRATCHPAD, scratch_}};
  if (shape.addend == Addend::matrix) {
    addend_ = unbound(description.dst_desc());
    arguments_.emplace(DNNL_ARG_ATTR_MULTIPLE_POST_OP(0) | DNNL_ARG_SRC_1, addend_);
  }
}

memory Product::unbound(const memory::desc& description) const {
  return {description, engine_, DNNL_MEMORY_NONE};
}

void Product::pack(const float* b, Layout layout, void* packed) {
  const ThreadCount thread_count(threads_);
  memory source = unbound(describe(shape_.k, shape_.n, DType::f32, layout));
  bind(source, b);
  bind(b_, packed);
  dnnl::reorder(source, b_).execute(stream_, source, b_);
}

void Product::run(const void* a, const void* b, void* c, const void* addend) {
  const ThreadCount thread_count(threads_);
  bind(a_, a);
  bind(b_, b);
  bind(c_, c);
  if (addend) bind(addend_, addend);
  matmul_.execute(stream_, arguments_);
}

}  // namespace troupe::tensor
