#include "actors/topology/validation.h"

#include <boost/test/unit_test.hpp>
#include <string>

#include "actors/topology/schedule_kinds.h"
#include "actors/topology/shape_rules.h"
#include "schedules/analysis/simulate.h"
#include "tests/support/run_specs.h"

namespace troupe::actors {

BOOST_AUTO_TEST_SUITE(validation_test)

namespace {

using Validation = RunSpec::Validation;

RunSpec run_of(Validation validation, int pp, int dp, const std::string& kind, int chunks = 1) {
  RunSpec spec = test::small_run(pp, dp);
  spec.batch.global = 16 * dp;
  spec.schedule = {.kind = kind, .chunks = chunks};
  spec.validation = validation;
  return spec;
}

}  // namespace

BOOST_AUTO_TEST_CASE(the_schedules_whose_stages_end_apart_are_those_that_a_barrier_makes_longer) {
  int compared = 0;
  for (const std::string_view kind : schedule_kinds())
    for (const int chunks : {1, 2}) {
      const RunSpec spec = run_of(Validation::barrier, 3, 1, std::string(kind), chunks);
      if (kind == "csv" || copies_of(spec.schedule) > 1 ||
          !fault_of_schedule(spec.batch, spec.mesh, spec.schedule).empty())
        continue;
      ++compared;
      const auto step = [plan = make_plan(spec)](schedules::Barrier barrier) {
        return schedules::simulate(plan, {.barrier = barrier})->step;
      };
      const double gain = 1 - step(schedules::Barrier::ahead) / step(schedules::Barrier::global);
      const bool is_longer = gain > 0.01, end_apart = stages_end_apart(spec.schedule.kind);
      if (kind == "zb-auto")  // what it finds depends on chunks and costs
        BOOST_TEST((end_apart || !is_longer));
      else
        BOOST_TEST(is_longer == end_apart, kind << ": " << gain);
    }
  BOOST_TEST(compared >= 12);
}

BOOST_AUTO_TEST_CASE(a_run_says_whether_stages_update_ahead) {
  const auto ahead = [](Validation validation, int pp, int dp, const char* kind) {
    return updates_ahead(run_of(validation, pp, dp, kind));
  };
  BOOST_TEST(!ahead(Validation::barrier, 2, 1, "zb-h2"));
  BOOST_TEST(ahead(Validation::post, 2, 1, "zb-h2"));
  BOOST_TEST(ahead(Validation::post, 2, 2, "1f1b"));
  BOOST_TEST(!ahead(Validation::post, 1, 2, "1f1b"));
  BOOST_TEST(ahead(Validation::automatic, 2, 1, "zb-h2"));
  BOOST_TEST(!ahead(Validation::automatic, 2, 1, "zb-h1"));
  BOOST_TEST(!ahead(Validation::automatic, 2, 2, "zb-h2"));  // nothing keeps the state before
}

BOOST_AUTO_TEST_CASE(
    ranks_tell_of_copies_where_the_next_update_would_leave_no_state_that_all_have) {
  RunSpec spec = run_of(Validation::post, 2, 1, "zb-h2");
  const auto tell = [&] { return tells_of_copies(spec, first_shape(spec)); };
  BOOST_TEST(tell());
  spec.recovery.copy_interval = 2;
  BOOST_TEST(!tell());
  spec.recovery.copy_interval = 1;
  spec.recovery.neighbour_copies = false;
  BOOST_TEST(!tell());
  spec = run_of(Validation::barrier, 2, 1, "zb-h2");
  BOOST_TEST(!tell());
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::actors
