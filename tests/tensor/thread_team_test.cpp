#include "tensor/cpu/products/thread_team.h"

#include <omp.h>

#include <boost/test/unit_test.hpp>
#include <cstring>

#include "tensor/cpu/products/product.h"
#include "tests/support/expect_error.h"

// Products have all the threads that they are divided among, whatever OpenMP's settings are.

namespace troupe::tensor {

BOOST_AUTO_TEST_SUITE(thread_team_test)

namespace {

constexpr int kThreads = 4;
constexpr std::int64_t kRows = 96, kWidth = 256;

std::vector<float> product() {
  Product product({.m = kRows, .k = kWidth, .n = kWidth}, kThreads);
  std::vector<std::byte> scratch(product.scratch_bytes() + 1);
  product.set_scratch(scratch.data());
  std::vector<float> a(kRows * kWidth), b(kWidth * kWidth), c(kRows * kWidth);
  for (std::size_t i = 0; i < a.size(); ++i) a[i] = static_cast<float>(i % 17) - 8;
  for (std::size_t i = 0; i < b.size(); ++i) b[i] = static_cast<float>(i % 13) - 6;
  product.run(a.data(), b.data(), c.data());
  return c;
}

}  // namespace

BOOST_AUTO_TEST_CASE(settings_that_give_fewer_threads_change_no_bit) {
  const std::vector<float> expected = product();
  const int levels = omp_get_max_active_levels();
  for (const bool dynamic : {false, true}) {
    for (const int level : {0, levels}) {
      omp_set_dynamic(dynamic);
      omp_set_max_active_levels(level);
      omp_set_num_threads(1);
      const std::vector<float> got = product();
      BOOST_TEST(std::memcmp(got.data(), expected.data(), got.size() * sizeof(float)) == 0,
                 "dynamic " << dynamic << ", levels " << level);
      BOOST_TEST(omp_get_max_threads() == 1);
    }
  }
}

BOOST_AUTO_TEST_CASE(a_limit_of_the_process_is_refused_by_name) {
#pragma omp teams num_teams(1) thread_limit(2)
  {
    test::expect_error(ErrorKind::unavailable, {"OMP_THREAD_LIMIT = 2", "4 are asked for"},
                       [] { require_openmp_threads(kThreads); });
    require_openmp_threads(2);
    const ThreadTeam team(kThreads);
    test::expect_error(ErrorKind::unavailable, {"2 of the 4 threads"}, [&] { team.check(); });
    test::expect_error(ErrorKind::unavailable, {"would lack parts"}, [] { product(); });
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::tensor
