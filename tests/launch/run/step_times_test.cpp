#include "launch/run/step_times.h"

#include <boost/test/unit_test.hpp>

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(step_times_test)

using launch::StepTimes;

BOOST_AUTO_TEST_CASE(the_first_step_counts_until_there_is_another) {
  StepTimes times;
  BOOST_TEST(times.left_s(100) == 0);
  times.add(30);
  BOOST_TEST(times.left_s(10) == 300);
  times.add(2);
  BOOST_TEST(times.left_s(10) == 20);
  times.add(2.5);
  times.add(3);
  BOOST_TEST(times.left_s(10) == 25);
}

BOOST_AUTO_TEST_CASE(slow_steps_among_the_newest_change_nothing) {
  StepTimes times;
  for (int step = 0; step < 100; ++step) times.add(step % 3 == 1 ? 60 : 0.5);
  BOOST_TEST(times.left_s(1000) == 500);
}

BOOST_AUTO_TEST_CASE(a_run_that_became_slower_is_believed) {
  StepTimes times;
  for (int step = 0; step < 1000; ++step) times.add(1);
  for (std::size_t step = 0; step < StepTimes::kNewest / 2 + 1; ++step) times.add(2);
  BOOST_TEST(times.left_s(7) == 14);
}

BOOST_AUTO_TEST_CASE(steps_of_another_shape_are_forgotten) {
  StepTimes times;
  for (int step = 0; step < 100; ++step) times.add(1);
  times.add(9);  // the first step of the new shape, which has waited for the change
  times.forget_earlier();
  BOOST_TEST(times.left_s(2) == 18);
  times.add(4);
  BOOST_TEST(times.left_s(2) == 8);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test
