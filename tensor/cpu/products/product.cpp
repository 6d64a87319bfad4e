#include "tensor/cpu/products/product.h"

#include <fmt/format.h>

#include "tensor/cpu/products/conversion.h"
#include "tensor/cpu/products/thread_team.h"
#include "tensor/errors/error.h"

namespace troupe::tensor {
namespace {

using dnnl::memory;

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

/// The product that oneDNN computes if bfloat16 is multiplied as float32. A result that is rounded
/// gets its addend in the rounding step, not from oneDNN.
ProductShape widened(ProductShape shape) {
  shape.input = DType::f32;
  if (shape.output == DType::bf16) shape.addend = Addend::none;
  shape.output = DType::f32;
  return shape;
}

std::int64_t aligned_floats(std::int64_t count) {
  return static_cast<std::int64_t>(aligned(static_cast<std::size_t>(count) * sizeof(float)) /
                                   sizeof(float));
}

void bind(memory& memory, const void* data) {
  memory.set_data_handle(const_cast<void*>(data));
}

bool is_widened(DType input) {
  return input == DType::bf16 && multiplies_bf16_as_f32();
}

}  // namespace

bool multiplies_bf16_as_f32() {
  const dnnl::cpu_isa isa = dnnl::get_effective_cpu_isa();
  const int bits = static_cast<int>(isa);  // an instruction set has the bits of those it includes
  if ((bits & dnnl_cpu_isa_avx512_core) != dnnl_cpu_isa_avx512_core) return true;
  return isa == dnnl::cpu_isa::avx512_core_bf16 && __builtin_cpu_is("intel");
}

Product::Product(const ProductShape& shape, int threads)
    : Product(
          shape, threads,
          describe(shape.k, shape.n, is_widened(shape.input) ? DType::f32 : shape.input, shape.b)) {
}

Product::Product(const ProductShape& shape, int threads, const Product& packed_like)
    : Product(shape, threads, packed_like.b_.get_desc()) {}

Product::Product(const ProductShape& shape, int threads, const memory::desc& b)
    : shape_(shape),
      threads_(threads),
      widened_(is_widened(shape.input)),
      engine_(dnnl::engine::kind::cpu, 0),
      stream_(engine_) {
  const ThreadTeam team(threads_);
  team.check();
  const ProductShape inside = widened_ ? widened(shape) : shape;
  const dnnl::matmul::primitive_desc description = describe_product(inside, b, engine_);
  matmul_ = dnnl::matmul(description);
  a_ = unbound(description.src_desc());
  b_ = unbound(description.weights_desc());
  c_ = unbound(description.dst_desc());
  scratch_ = unbound(description.scratchpad_desc());
  arguments_ = {{DNNL_ARG_SRC, a_},
                {DNNL_ARG_WEIGHTS, b_},
                {DNNL_ARG_DST, c_},
                {DNNL_ARG_SCRATCHPAD, scratch_}};
  if (inside.addend == Addend::matrix) {
    addend_ = unbound(description.dst_desc());
    arguments_.emplace(DNNL_ARG_ATTR_MULTIPLE_POST_OP(0) | DNNL_ARG_SRC_1, addend_);
  }
}

memory Product::unbound(const memory::desc& description) const {
  return {description, engine_, DNNL_MEMORY_NONE};
}

Product::WideSizes Product::wide_sizes() const {
  if (!widened_) return {};
  return {.a = aligned_floats(shape_.m * shape_.k),
          .b = shape_.b == Layout::packed ? 0 : aligned_floats(shape_.k * shape_.n),
          .c = shape_.output == DType::bf16 ? aligned_floats(shape_.m * shape_.n) : 0};
}

std::size_t Product::scratch_bytes() const {
  const auto [a, b, c] = wide_sizes();
  return aligned(scratch_.get_desc().get_size()) +
         static_cast<std::size_t>(a + b + c) * sizeof(float);
}

void Product::set_scratch(void* data) {
  scratch_.set_data_handle(data);
  wide_ = reinterpret_cast<float*>(static_cast<std::byte*>(data) +
                                   aligned(scratch_.get_desc().get_size()));
}

void Product::pack(const float* b, Layout layout, void* packed) {
  const ThreadTeam team(threads_);
  memory source = unbound(describe(shape_.k, shape_.n, DType::f32, layout));
  memory target = unbound(b_.get_desc());  // b_ may be read by a run at the same time
  bind(source, b);
  bind(target, packed);
  dnnl::reorder(source, target).execute(stream_, source, target);
  if (widened_)
    round_to_bfloat16(threads_, static_cast<float*>(packed),
                      static_cast<std::int64_t>(packed_bytes() / sizeof(float)));
}

void Product::run(const void* a, const void* b, void* c, const void* addend) {
  const ThreadTeam team(threads_);
  if (widened_) return run_widened(a, b, c, addend);
  bind(a_, a);
  bind(b_, b);
  bind(c_, c);
  if (addend) bind(addend_, addend);
  matmul_.execute(stream_, arguments_);
}

void Product::run_widened(const void* a, const void* b, void* c, const void* addend) {
  const WideSizes sizes = wide_sizes();
  float* wide_b = wide_ + sizes.a;
  float* wide_c = wide_b + sizes.b;
  widen(threads_, static_cast<const BFloat16*>(a), wide_, shape_.m * shape_.k);
  if (sizes.b > 0) widen(threads_, static_cast<const BFloat16*>(b), wide_b, shape_.k * shape_.n);
  bind(a_, wide_);
  bind(b_, sizes.b > 0 ? wide_b : b);
  bind(c_, sizes.c > 0 ? wide_c : c);
  if (sizes.c == 0 && addend) bind(addend_, addend);
  matmul_.execute(stream_, arguments_);
  if (sizes.c == 0) return;
  const void* added = shape_.addend == Addend::destination ? c : addend;
  narrow(threads_, wide_c, static_cast<const BFloat16*>(added), static_cast<BFloat16*>(c),
         shape_.m * shape_.n);
}

}  // namespace troupe::tensor
