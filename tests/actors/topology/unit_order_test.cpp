#include "actors/topology/state/unit_order.h"

#include <boost/test/unit_test.hpp>
#include <utility>

#include "tests/support/null_device.h"
#include "tests/support/run_specs.h"
#include "tests/support/thread_cluster.h"

namespace troupe::actors {

BOOST_AUTO_TEST_SUITE(unit_order_test)

namespace {

/// Two microbatches through two layers, of which rank 0 has its part.
stages::UnitOrder order_of(RunSpec spec) {
  spec.model.num_hidden_layers = 2;
  spec.mesh.dp = 2;
  spec.batch.global = 2 * 2 * spec.batch.micro;
  spec.data_parallel.division = stages::StateDivision::optim_grads_params;
  const test::ThreadCluster cluster(spec);
  const RankAssembly part = cluster.part(0);
  test::NullDevice device;
  const auto stage = stages::make_transformer_stage(part.stage, device);
  return unit_order(compile(part, part.actions), *stage);
}

using Units = std::vector<int>;

}  // namespace

BOOST_AUTO_TEST_CASE(units_come_in_the_order_in_which_nodes_read_them) {
  // Numbered from the end: norm and head, layers, embedding, whose backward reads no weights.
  const auto [forward, backward] = order_of(test::small_run());
  BOOST_TEST((forward == Units{3, 2, 1, 0, 3, 2, 1, 0}));
  BOOST_TEST((backward == Units{0, 1, 2, 0, 1, 2}));
}

BOOST_AUTO_TEST_CASE(a_stage_reads_its_own_units_in_the_order_of_its_plan) {
  RunSpec spec = test::small_run(2);
  const auto [forward, backward] = order_of(spec);
  BOOST_TEST((forward == Units{1, 0, 1, 0}));
  BOOST_TEST((backward == Units{0}));  // the same unit in a row is one read
}

BOOST_AUTO_TEST_CASE(backwards_that_compute_again_read_a_unit_once) {
  RunSpec spec = test::small_run();
  spec.recompute.mode = stages::Recompute::Mode::full;
  const auto [forward, backward] = order_of(spec);
  BOOST_TEST((forward == Units{3, 2, 1, 0, 3, 2, 1, 0}));
  BOOST_TEST((backward == Units{0, 1, 2, 0, 1, 2}));
}

BOOST_AUTO_TEST_CASE(the_head_of_a_tied_model_is_a_unit_of_its_own) {
  RunSpec spec = test::small_run();
  spec.model.tie_word_embeddings = true;
  // The norm is a unit, and the head's use of the embedding the last one.
  const auto [forward, backward] = order_of(spec);
  BOOST_TEST((forward == Units{3, 2, 1, 0, 4, 3, 2, 1, 0, 4}));
  BOOST_TEST((backward == Units{4, 0, 1, 2, 4, 0, 1, 2}));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::actors
