#include "actors/protocol/recovery_clock.h"

#include <boost/test/unit_test.hpp>

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(recovery_clock_test)

namespace {

using actors::RecoveryClock;

double sum_of_phases(const actors::ChangeReport& report) {
  double sum = 0;
  for (const actors::PhaseName& phase : actors::kPhaseNames) sum += report.phases.*phase.seconds;
  return sum;
}

RecoveryClock::Time half_a_second_ago() {
  return std::chrono::steady_clock::now() - std::chrono::milliseconds(500);
}

}  // namespace

BOOST_AUTO_TEST_CASE(the_phases_of_a_loss_are_its_stall) {
  RecoveryClock clock;
  const auto detect_s = clock.lost(half_a_second_ago(), 1, "killed");
  BOOST_TEST(!clock.lost(half_a_second_ago(), 2, "killed too").has_value());
  clock.halting("", "rank 0 ended");
  clock.begins("memory");
  clock.reached(0, false);
  const auto report = clock.finish();
  BOOST_TEST(report.from == "memory");
  BOOST_TEST(report.rank == 1);
  BOOST_TEST(report.losses == 2);
  BOOST_TEST(report.phases.detect_s >= 0.5);
  BOOST_TEST(report.phases.detect_s == detect_s.value());
  BOOST_TEST(sum_of_phases(report) == report.stall_s, boost::test_tools::tolerance(1e-6));
  BOOST_TEST(!clock.running());
}

BOOST_AUTO_TEST_CASE(the_phases_are_the_stall_where_nobody_is_left_to_halt) {
  RecoveryClock clock;
  clock.lost(half_a_second_ago(), 0, "killed");
  clock.begins("checkpoint");
  clock.reached(0, false);
  const auto report = clock.finish();
  BOOST_TEST(report.phases.decide_s == 0);
  BOOST_TEST(sum_of_phases(report) == report.stall_s, boost::test_tools::tolerance(1e-6));
}

/// What is lost and ordered while steps are computed again belongs to the recovery: it keeps the
/// cause and the origin of its beginning, and every second of it is in one phase.
BOOST_AUTO_TEST_CASE(a_recovery_that_catches_up_is_one_until_its_first_new_step) {
  RecoveryClock clock;
  clock.lost(half_a_second_ago(), 1, "killed");
  clock.halting("", "killed");
  clock.begins("checkpoint");
  clock.reached(0, true);
  clock.halting("", "pp 2 -> 3");  // an order, whose state is in memory
  clock.begins("memory");
  clock.reached(0, true);
  const auto detect_s = clock.lost(std::chrono::steady_clock::now(), 2, "killed later");
  BOOST_TEST(detect_s.has_value());  // no consequence of the first loss
  clock.halting("", "killed later");
  clock.begins("memory");
  clock.reached(0, true);
  clock.caught_up();
  const auto report = clock.finish();
  BOOST_TEST(report.cause == "killed");
  BOOST_TEST(report.rank == 1);
  BOOST_TEST(report.losses == 2);
  BOOST_TEST(report.from == "checkpoint");
  BOOST_TEST(report.order == "");
  BOOST_TEST(report.phases.catch_up_s > 0);
  BOOST_TEST(sum_of_phases(report) == report.stall_s, boost::test_tools::tolerance(1e-6));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test
