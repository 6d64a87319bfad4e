#include "tensor/cuda/products/cuda_linear.h"

#include "tensor/errors/error.h"
#include "tests/support/host_cublaslt.h"
#include "tests/support/temp_dir.h"
#include "tests/tensor/host.h"

// What the tests of linear layers, which run on these products too, do not ask of every device.

namespace troupe::tensor::cuda {

BOOST_AUTO_TEST_SUITE(cuda_linear_test)

namespace {

using test::ProductCall;

/// A layer of `shape` that has run its three products once, the last one added to what was there.
std::vector<ProductCall> calls_of(Host& host, const LinearShape& shape,
                                  std::int64_t first_row = 0) {
  const auto linear = host.device().make_linear(shape);
  host.give_scratch(*linear);
  const auto rows = [&](DType dtype, std::int64_t columns) {
    const Tensor all = host.zeros(dtype, {first_row + shape.rows, columns});
    const auto skipped = static_cast<std::size_t>(first_row * columns) * size_of(dtype);
    return Tensor{all.as<std::byte>() + skipped, dtype, {shape.rows, columns}};
  };
  const Tensor x = rows(shape.dtype, shape.in), dx = rows(shape.dtype, shape.in);
  const Tensor dy = rows(shape.dtype, shape.out), y = rows(shape.output_dtype, shape.out);
  const Tensor w = host.zeros(DType::f32, {shape.out, shape.in}),
               dw = host.zeros(DType::f32, {shape.out, shape.in});
  const Buffer packed = host.device().allocate(linear->packed_bytes(), MemoryKind::device);
  linear->pack(host.stream(), w, packed.data());
  test::product_calls().clear();
  linear->forward(host.stream(), x, packed.data(), y);
  linear->input_gradient(host.stream(), dy, packed.data(), dx);
  linear->weight_gradient(host.stream(), dy, x, dw, Gradient::added);
  return test::product_calls();
}

LinearShape shape_of(std::int64_t in, DType dtype) {
  return {.rows = 4, .in = in, .out = 64, .dtype = dtype, .output_dtype = dtype};
}

BOOST_AUTO_TEST_CASE(a_packed_weight_is_one_copy_in_the_layers_type) {
  Host host(0);
  const auto linear = host.device().make_linear(shape_of(32, DType::bf16));
  BOOST_TEST(linear->packed_bytes() == 64u * 32 * 2);
  int memory = 0;
  const Tensor copy = linear->packed_copy(&memory);
  BOOST_TEST(copy.data == &memory);
  BOOST_TEST((copy.dtype == DType::bf16 && copy.shape == Shape{64, 32}));
}

BOOST_AUTO_TEST_CASE(algorithms_are_promised_the_alignment_of_whole_rows) {
  Host host(0);
  for (const ProductCall& call : calls_of(host, shape_of(128, DType::bf16))) {
    BOOST_TEST(call.algorithm.data[1] >= 128u);
    BOOST_TEST(call.algorithm.data[2] >= 128u);
  }
  // Rows of 36 numbers have 72 bytes: what starts with the second one is aligned to 8.
  for (const std::int64_t first_row : {0, 1, 2, 3}) {
    const auto calls = calls_of(host, shape_of(36, DType::bf16), first_row);
    BOOST_TEST(calls.at(0).algorithm.data[2] == 8u);  // x
    BOOST_TEST(calls.at(1).algorithm.data[1] == 8u);  // w
    BOOST_TEST(calls.at(2).algorithm.data[1] == 8u);  // x
  }
}

BOOST_AUTO_TEST_CASE(memory_that_is_less_aligned_takes_another_algorithm) {
  Host host(0);
  const LinearShape shape = shape_of(128, DType::bf16);
  const auto linear = host.device().make_linear(shape);
  host.give_scratch(*linear);
  const Tensor memory = host.normal(DType::bf16, {shape.rows * shape.in + 1}, "x");
  const Tensor x = memory;
  const Tensor odd{memory.as<std::byte>() + 2, DType::bf16, {shape.rows, shape.in}};
  const Tensor w = host.normal(DType::f32, {shape.out, shape.in}, "w");
  const Tensor y = host.output(DType::bf16, {shape.rows, shape.out});
  const Buffer packed = host.device().allocate(linear->packed_bytes(), MemoryKind::device);
  linear->pack(host.stream(), w, packed.data());
  test::product_calls().clear();
  linear->forward(host.stream(), odd, packed.data(), y);
  linear->forward(host.stream(), {x.data, x.dtype, {shape.rows, shape.in}}, packed.data(), y);
  BOOST_TEST(test::product_calls().at(0).algorithm.data[2] == 2u);
  BOOST_TEST(test::product_calls().at(1).algorithm.data[2] == 256u);
}

BOOST_AUTO_TEST_CASE(float32_is_rounded_to_tf32_only_if_asked) {
  for (const bool tf32 : {false, true}) {
    Host host(test::make_cublaslt_device(0, {.tf32 = tf32}));
    for (const ProductCall& call : calls_of(host, shape_of(32, DType::f32)))
      BOOST_TEST((call.compute == (tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F)));
    for (const ProductCall& call : calls_of(host, shape_of(32, DType::bf16)))
      BOOST_TEST((call.compute == CUBLAS_COMPUTE_32F));
  }
}

BOOST_AUTO_TEST_CASE(without_a_store_the_heuristics_first_answer_is_taken) {
  Host host(0);
  for (const ProductCall& call : calls_of(host, shape_of(32, DType::f32)))
    BOOST_TEST(call.algorithm.data[0] == 0u);
}

BOOST_AUTO_TEST_CASE(what_was_chosen_by_speed_is_kept_per_product) {
  const test::TempDir folder;
  AlgorithmStore store(folder / "products");
  const auto device = [&](bool tf32, const char* key) {
    return test::make_cublaslt_device(0, {.tf32 = tf32, .store = &store, .key = key});
  };
  Host host(device(false, "this GPU"));
  const auto calls = calls_of(host, shape_of(32, DType::f32));
  for (const ProductCall& call : calls) BOOST_TEST(call.algorithm.data[0] == 2u);
  const auto lines = [&] {
    const std::string text = test::content_of(folder / "products");
    return std::count(text.begin(), text.end(), '\n') - 1;  // the first names the format
  };
  BOOST_TEST(lines() == 3);
  calls_of(host, shape_of(32, DType::f32));  // the same products again
  BOOST_TEST(lines() == 3);
  calls_of(host, shape_of(40, DType::f32));
  BOOST_TEST(lines() == 6);
  Host rounded(device(true, "this GPU"));
  calls_of(rounded, shape_of(32, DType::f32));
  BOOST_TEST(lines() == 9);
  Host other(device(false, "another GPU"));
  calls_of(other, shape_of(32, DType::f32));
  BOOST_TEST(lines() == 12);
}

BOOST_AUTO_TEST_CASE(an_algorithm_that_the_library_refuses_is_an_error) {
  const test::TempDir folder;
  {
    AlgorithmStore store(folder / "products");
    Host host(test::make_cublaslt_device(0, {.store = &store, .key = "GPU"}));
    calls_of(host, shape_of(32, DType::f32));
  }
  // The keys of the products, with algorithms that are none.
  std::string text = test::content_of(folder / "products");
  AlgorithmStore damaged(folder / "other");
  std::size_t begin = text.find('\n') + 1;
  for (std::size_t end; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1) {
    const std::string line = text.substr(begin, end - begin);
    damaged.find_or_choose(line.substr(9 * 17), [] { return AlgorithmStore::Algorithm{}; });
  }
  Host host(test::make_cublaslt_device(0, {.store = &damaged, .key = "GPU"}));
  BOOST_CHECK_EXCEPTION(host.device().make_linear(shape_of(32, DType::f32)), Error,
                        [](const Error& error) { return error.kind() == ErrorKind::data; });
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::tensor::cuda
