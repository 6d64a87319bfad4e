#include "actors/protocol/hosts/time_limits.h"

#include <boost/test/unit_test.hpp>

namespace troupe::actors {

BOOST_AUTO_TEST_SUITE(time_limits_test)

namespace {

using Names = std::vector<std::string>;

}  // namespace

BOOST_AUTO_TEST_CASE(a_host_is_left_a_minute_before_its_time_ends_and_once) {
  TimeLimits limits;
  limits.set("h0", 0, 0);
  limits.set("h1", 1000, 0);
  BOOST_TEST(limits.due(939) == Names{});
  BOOST_TEST(limits.due(940) == Names{"h1"});
  BOOST_TEST(limits.due(999) == Names{});
}

BOOST_AUTO_TEST_CASE(a_run_whose_steps_changes_and_checkpoints_take_long_begins_earlier) {
  TimeLimits limits;
  limits.set("h1", 1000, 0);
  limits.took_step(50);
  limits.took_step(40);
  limits.took_change(20);
  limits.took_save(100);
  BOOST_TEST(limits.due(829) == Names{});
  BOOST_TEST(limits.due(830) == Names{"h1"});
}

BOOST_AUTO_TEST_CASE(of_a_short_time_half_is_used) {
  TimeLimits limits;
  limits.set("h1", 130, 100);
  BOOST_TEST(limits.due(114) == Names{});
  BOOST_TEST(limits.due(115) == Names{"h1"});
}

BOOST_AUTO_TEST_CASE(hosts_whose_times_end_soon_after_each_other_are_left_together) {
  TimeLimits limits;
  limits.set("h0", 1000, 0);
  limits.set("h1", 1014, 0);
  limits.set("h2", 1016, 0);
  BOOST_TEST(limits.due(940) == (Names{"h0", "h1"}));
  BOOST_TEST(limits.due(956) == Names{"h2"});
}

BOOST_AUTO_TEST_CASE(a_host_that_joins_anew_has_a_time_of_its_own) {
  TimeLimits limits;
  limits.set("h1", 1000, 0);
  limits.set("h1", 5000, 900);
  BOOST_TEST(limits.due(4939) == Names{});
  limits.set("h1", 0, 4939);
  BOOST_TEST(limits.due(6000) == Names{});
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::actors
