#include "actors/tuning/width_choice.h"

#include <boost/test/unit_test.hpp>

#include "tests/support/run_specs.h"

namespace troupe::actors {

BOOST_AUTO_TEST_SUITE(width_choice_test)

namespace {

/// A forward of each stage takes so long, and a backward twice that.
Measured measured_of(const std::vector<double>& forwards) {
  Measured measured;
  for (const double seconds : forwards) {
    ActionTimes& times = measured.chunks.emplace_back();
    times.of(schedules::Op::F) = seconds;
    times.of(schedules::Op::B) = 2 * seconds;
  }
  return measured;
}

}  // namespace

BOOST_AUTO_TEST_CASE(the_slowest_stage_becomes_wider) {
  RunSpec spec = test::small_run(2);
  spec.batch.global = 64;
  const auto choice = choose_width(spec, first_shape(spec), measured_of({1, 2}));
  BOOST_REQUIRE(choice.has_value());
  BOOST_TEST(choice->stage == 1);
  BOOST_TEST(choice->dp == 2);
  // 32 microbatches of 1 + 2 a forward become 16 of twice the samples, of which each replica of the
  // second stage has half: both stages take 2 then. Ends of the pipeline are short beside that.
  BOOST_TEST(choice->wider_s / choice->now_s > 0.5);
  BOOST_TEST(choice->wider_s / choice->now_s < 0.56);
}

BOOST_AUTO_TEST_CASE(replicas_divide_their_neighbours_and_the_batch) {
  RunSpec spec = test::small_run(2);
  spec.batch.global = 2 * 9;
  spec.mesh.set_widths({{.dp = 1}, {.dp = 3}});
  const auto narrow = choose_width(spec, first_shape(spec), measured_of({3, 1}));
  BOOST_REQUIRE(narrow.has_value());
  BOOST_TEST(narrow->stage == 0);
  BOOST_TEST(narrow->dp == 3);  // 2 does not go with 3
  spec = test::small_run(2);
  spec.batch.global = 2;  // one microbatch
  BOOST_TEST(!choose_width(spec, first_shape(spec), measured_of({3, 1})).has_value());
  spec = test::small_run(1);
  BOOST_TEST(!choose_width(spec, first_shape(spec), measured_of({3})).has_value());
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::actors
