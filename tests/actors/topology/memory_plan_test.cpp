#include "actors/topology/memory_plan.h"

#include <boost/test/unit_test.hpp>

#include "tests/support/run_specs.h"

namespace troupe::actors {

BOOST_AUTO_TEST_CASE(a_change_takes_both_shapes_in_the_same_processes) {
  const RunSpec spec = test::small_run(2, 1);
  const ClusterShape two = first_shape(spec);
  const ClusterShape four = first_shape(test::small_run(4, 1));
  const std::int64_t both = total_memory(spec, two) + total_memory(spec, four);
  BOOST_TEST(total_memory_of_change(spec, two, four) == both - 2 * kProcessBytes);
  BOOST_TEST(total_memory_of_change(spec, four, two) == both - 2 * kProcessBytes);
  BOOST_TEST(total_memory_of_change(spec, two, two) ==
             2 * (total_memory(spec, two) - kProcessBytes));
}

BOOST_AUTO_TEST_CASE(a_spare_counts_as_the_largest_rank) {
  RunSpec spec = test::small_run(2, 1);
  const ClusterShape two = first_shape(spec), four = first_shape(test::small_run(4, 1));
  const auto spare_of = [&](const ClusterShape& shape) {
    const auto ranks = memory_of(spec, shape, assemble(spec, shape));
    const std::int64_t spare = memory_of_spare(ranks).total();
    for (const RankMemory& rank : ranks) BOOST_TEST(spare >= rank.total());
    return spare;
  };
  const std::int64_t without = total_memory(spec, two);
  const std::int64_t change = total_memory_of_change(spec, two, four);
  spec.recovery.spares = 3;
  BOOST_TEST(total_memory(spec, two) == without + 3 * spare_of(two));
  BOOST_TEST(total_memory_of_change(spec, two, four) ==
             change + 3 * std::max(spare_of(two), spare_of(four)));
}

}  // namespace troupe::actors
