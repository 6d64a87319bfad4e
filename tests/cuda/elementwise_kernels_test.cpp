#include "tensor/cuda/kernels/elements/elementwise_kernels.h"

#include <boost/test/unit_test.hpp>
#include <vector>

#include "tests/emulated_grid/grid.h"

namespace troupe::tensor::cuda {

BOOST_AUTO_TEST_SUITE(elementwise_kernels_test)

BOOST_AUTO_TEST_CASE(accumulate_adds_every_element_once) {
  for (std::uint64_t seed = 0; seed < 6; ++seed) {
    for (const std::int64_t n : {1, 3, 256, 1001, 4096}) {
      emulated_grid::Grid grid(seed);
      std::vector<float> x(static_cast<std::size_t>(n), 2), y(x.size(), 1);
      launch_accumulate(DType::f32, x.data(), y.data(), n, grid.stream());
      BOOST_TEST(y == std::vector<float>(x.size(), 3), boost::test_tools::per_element());
    }
  }
}

BOOST_AUTO_TEST_CASE(adamw_updates_the_parameters_of_a_layer_in_one_launch) {
  std::vector<std::vector<float>> memory;
  const auto take = [&](std::int64_t n) {
    return memory.emplace_back(static_cast<std::size_t>(n), 1.0f).data();
  };
  const auto launches_of = [&](std::size_t count, std::int64_t elements) {
    std::vector<AdamWParameter> parameters;
    for (std::size_t i = 0; i < count; ++i) {
      float* const w = take(elements);
      float* const m = take(elements);
      float* const v = take(elements);
      parameters.push_back({.factors = AdamWFactors({.lr = 0.1f}),
                            .count = elements,
                            .gradient = take(elements),
                            .w = w,
                            .m = m,
                            .v = v,
                            .w_out = w,
                            .m_out = m,
                            .v_out = v});
    }
    emulated_grid::Grid grid(1);
    launch_adamw(parameters, grid.stream());
    return grid.launches();
  };
  BOOST_TEST(launches_of(9, 64) == 1);
  BOOST_TEST(launches_of(kAdamWParameters, 64) == 1);
  BOOST_TEST(launches_of(kAdamWParameters, 63) == 1);
  BOOST_TEST(launches_of(9, 0) == 0);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::tensor::cuda
