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

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::tensor::cuda
