#include <boost/test/unit_test.hpp>

#include "tests/gpu/needs_gpu.h"
#include "tests/gpu/ranks_model.h"
#include "tests/support/edge_runs.h"

// Tests runs over ranks that share a GPU, by the placement of the edges between them.

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(edges_test)

namespace {

BOOST_TEST_GLOBAL_FIXTURE(NeedsGpu);

const Keys kModel = ranks_model();

}  // namespace

BOOST_AUTO_TEST_CASE(pipelines_have_the_bits_of_one_rank) {
  const Workplace place;
  const Numbers alone =
      trained(place, "alone", with(with(kModel, edges_of("auto")), {{"mesh.pp", "1"}}));
  const auto check = [&](const std::string& kind, const char* schedule, const char* chunks,
                         const char* pp) {
    const Keys keys =
        with(with(kModel, edges_of(kind)), {{"mesh.pp", pp},
                                            {"schedule.kind", '"' + std::string(schedule) + '"'},
                                            {"schedule.chunks", chunks}});
    const std::string name = kind + "_" + schedule + "_" + pp;
    BOOST_TEST((trained(place, name, keys) == alone), name);
  };
  for (const char* schedule : {"1f1b", "zb-h1"}) check("peer", schedule, "1", "2");
  for (const char* schedule : {"interleaved", "combined-1f1b"}) check("peer", schedule, "2", "2");
  for (const char* pp : {"2", "4"}) check("staged", "1f1b", "1", pp);
}

BOOST_AUTO_TEST_CASE(deaths_while_both_hold_the_slots_change_no_bit) {
  const Workplace place;
  for (const std::string kind : {"peer", "staged"}) check_deaths(place, kind, kModel);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test
