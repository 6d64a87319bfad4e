#include "actors/topology/memory_plan.h"

#include <boost/test/unit_test.hpp>

#include "tests/support/run_specs.h"

namespace troupe::actors {

BOOST_AUTO_TEST_CASE(a_change_takes_both_shapes_in_the_same_processes) {
  const RunSpec spec = test::small_run(2, 1);
  const Shape two = first_shape(spec);
  const Shape four = first_shape(test::small_run(4, 1));
  const std::int64_t both = total_memory(spec, two) + total_memory(spec, four);
  BOOST_TEST(total_memory_of_change(spec, two, four) == both - 2 * kProcessBytes);
  BOOST_TEST(total_memory_of_change(spec, four, two) == both - 2 * kProcessBytes);
  BOOST_TEST(total_memory_of_change(spec, two, two) ==
             2 * (total_memory(spec, two) - kProcessBytes));
}

}  // namespace troupe::actors
