#include <boost/test/unit_test.hpp>

#include "tests/support/edge_runs.h"

// Tests runs over ranks on emulated GPUs, which TROUPE_CUDA_PATH names, by the placement of the
// edges between them.

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(device_edges_test)

namespace {

const Keys kModel{{"model.num_hidden_layers", "4"}, {"batch.micro", "1"}, {"batch.global", "4"}};

}  // namespace

BOOST_AUTO_TEST_CASE(edges_of_every_placement_carry_the_bits_of_one_rank) {
  const Workplace place;
  const Numbers alone =
      trained(place, "alone", with(with(kModel, edges_of("auto")), {{"mesh.pp", "1"}}));
  for (const std::string kind : {"peer", "staged"})
    for (const auto& [schedule, chunks] :
         {std::pair{"1f1b", "1"}, {"interleaved", "2"}, {"combined-1f1b", "2"}}) {
      const Keys keys =
          with(with(kModel, edges_of(kind)), {{"mesh.pp", "2"},
                                              {"schedule.kind", '"' + std::string(schedule) + '"'},
                                              {"schedule.chunks", chunks}});
      BOOST_TEST((trained(place, kind + "_" + schedule, keys) == alone), kind << ' ' << schedule);
    }
}

BOOST_AUTO_TEST_CASE(deaths_while_both_hold_the_slots_change_no_bit) {
  const Workplace place;
  for (const std::string kind : {"peer", "staged"}) check_deaths(place, kind, kModel);
}

BOOST_AUTO_TEST_CASE(a_run_changes_its_stages_and_no_bit) {
  check_scaling(Workplace(), kModel);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test
