#include <boost/test/unit_test.hpp>

#include "tests/gpu/needs_gpu.h"
#include "tests/gpu/ranks_model.h"
#include "tests/support/edge_runs.h"

// Tests runs whose number of ranks changes, and shards of a stage, on a GPU that all ranks share.

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(ranks_test)

namespace {

BOOST_TEST_GLOBAL_FIXTURE(NeedsGpu);

/// What the sums of two shards may change of a loss in few steps of float32.
constexpr double kNearOneShard = 1e-4;

const Keys kModel = ranks_model();

}  // namespace

BOOST_AUTO_TEST_CASE(a_run_changes_its_stages_and_no_bit) {
  check_scaling(Workplace(), kModel);
}

BOOST_AUTO_TEST_CASE(two_shards_have_the_losses_of_one) {
  const Workplace place;
  const Keys keys = with(with(kModel, edges_of("auto")), {{"mesh.pp", "1"}});
  const Numbers alone = trained(place, "alone", keys);
  const Numbers shards = trained(place, "shards", with(keys, {{"mesh.tp", "2"}}));
  BOOST_TEST(shards.size() == alone.size());
  BOOST_TEST(distance(shards, alone) < kNearOneShard, distance(shards, alone));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test
