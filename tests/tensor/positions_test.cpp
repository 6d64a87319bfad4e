#include "tests/support/reference_gpt2_ops.h"
#include "tests/tensor/host.h"

namespace troupe::tensor {

BOOST_AUTO_TEST_SUITE(positions_test)

namespace {

/// Rows [first, first + count) of x[T, C].
Tensor rows_of(const Tensor& x, std::int64_t first, std::int64_t count) {
  const auto row = static_cast<std::size_t>(x.shape[1]) * size_of(x.dtype);
  return {x.as<std::byte>() + static_cast<std::size_t>(first) * row, x.dtype, {count, x.shape[1]}};
}

BOOST_AUTO_TEST_CASE(positions_agree_with_the_reference) {
  for_each_setup([](DType dtype, Host& host) {
    for (const std::int64_t channels : {7, 16, 133}) {
      for (const std::int64_t first : {0, 5, 17}) {
        const auto c = static_cast<std::size_t>(channels), at = static_cast<std::size_t>(first);
        const Tensor positions = host.normal(DType::f32, {10, channels}, "positions");
        const Tensor x = host.normal(dtype, {24, channels}, "x");
        const Values expected =
            reference::add_positions(Host::read(x), Host::read(positions), at, c);
        host.ops().add_positions(host.stream(), positions, first, x);
        check_near(x, expected, tolerance_of(dtype));
        const Tensor dx = host.normal(dtype, {24, channels}, "dx");
        Values sums = reference::positions_backward(Host::read(dx), at, 10, c);
        const Values before = Host::read(positions);
        for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += before[i];
        host.ops().positions_backward(host.stream(), dx, first, positions);
        check_near(positions, sums, tolerance_of(DType::f32));
      }
    }
  });
}

BOOST_AUTO_TEST_CASE(rows_of_a_table_are_added_by_their_numbers) {
  for_each_setup([](DType dtype, Host& host) {
    for (const std::int64_t channels : {7, 16, 133}) {
      const std::vector<std::int32_t> rows = {0, 1, 2, 0, 0, 1, 4};
      const Tensor table = host.normal(DType::f32, {5, channels}, "table");
      const Tensor x = host.normal(dtype, {7, channels}, "x");
      Values expected = Host::read(x);
      const Values added = Host::read(table);
      const auto c = static_cast<std::size_t>(channels);
      for (std::size_t i = 0; i < expected.size(); ++i)
        expected[i] += added[static_cast<std::size_t>(rows[i / c]) * c + i % c];
      host.ops().add_rows(host.stream(), table, host.ids(rows), x);
      check_near(x, expected, tolerance_of(dtype));
    }
  });
}

// The shards of a sequence-parallel layer hold such slices.
BOOST_AUTO_TEST_CASE(slices_of_the_tokens_get_the_positions_of_the_whole) {
  for_each_setup([](DType dtype, Host& host) {
    const Tensor positions = host.normal(DType::f32, {10, 40}, "positions");
    const Tensor whole = host.normal(dtype, {30, 40}, "x");
    const Tensor sliced = host.normal(dtype, {30, 40}, "x");
    host.ops().add_positions(host.stream(), positions, 0, whole);
    for (const std::int64_t first : {0, 6, 12, 18, 24}) {
      host.ops().add_positions(host.stream(), positions, first, rows_of(sliced, first, 6));
    }
    BOOST_TEST(same_bits(whole, sliced));
  });
}

BOOST_AUTO_TEST_CASE(positions_backward_adds_in_ascending_token_order) {
  for (const int threads : {1, 2, 3}) {
    Host host(threads);
    Values gradients(3 * 40, 1.0);
    std::fill_n(gradients.begin() + 40, 40, 0x1p24);  // swallows the 1 added before it
    std::fill_n(gradients.begin() + 80, 40, -0x1p24);
    const Tensor dx = host.of(DType::f32, {3, 40}, gradients);
    const Tensor dpositions = host.zeros(DType::f32, {1, 40});
    host.ops().positions_backward(host.stream(), dx, 0, dpositions);
    BOOST_TEST((Host::read(dpositions) == Values(40, 0.0)));
  }
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::tensor
