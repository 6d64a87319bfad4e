#include <boost/test/unit_test.hpp>

#include "tests/support/hosts_driver.h"

// Several hosts that are left at once, by name or by the number of hosts that are wanted.

namespace troupe::actors {

BOOST_AUTO_TEST_SUITE(left_hosts_test)

namespace {

Driver started_run(int pp, const std::vector<Host>& hosts) {
  Driver driver = on_hosts(long_run(pp), hosts);
  driver.start();
  driver.prepared(1);
  return driver;
}

std::vector<Effect> order(Driver& driver, const ScaleRequest& request) {
  return driver.on(ScaleOrdered{.order = 1, .request = request});
}

std::string refused(Driver& driver, const ScaleRequest& request) {
  const auto effects = order(driver, request);
  return find<AnswerScale>(effects) ? find<AnswerScale>(effects)->refused : "";
}

}  // namespace

BOOST_AUTO_TEST_CASE(hosts_that_are_drained_together_cost_one_change) {
  Driver driver = started_run(4, {{"h0", 2}, {"h1", 1}, {"h2", 1}, {"h3", 2}});
  const auto effects = driver.on(HostsDraining{.names = {"h1", "h2", "h9"}, .cause = "SIGTERM"});
  BOOST_TEST(told_hosts(effects) == "h1 draining, h2 draining");
  BOOST_TEST(started(effects) == "1 h0, 2 h3");
  join_all(driver);
  driver.warm();
  BOOST_TEST(find<OrderHalt>(driver.prepared(2))->change == "--without-host h1 --without-host h2");
  BOOST_TEST_REQUIRE(find<StartConfiguration>(gather_all(driver, 2)));
  driver.ready();
  BOOST_TEST(!find<OrderHalt>(driver.prepared(3)));
  BOOST_TEST(hosts_of(driver.protocol.configuration()) == "h0 h0 h3 h3");
}

BOOST_AUTO_TEST_CASE(hosts_whose_time_ends_together_end_the_run_before_any_moves) {
  Driver driver = started_run(2, {{"h0", 2}, {"h1", 2}});
  const auto effects = driver.on(HostsDraining{.names = {"h0", "h1"}, .cause = "time"});
  BOOST_TEST(started(effects) == "");
  BOOST_TEST(end_after_step(driver, 2).exit_code == 75);
}

BOOST_AUTO_TEST_CASE(a_run_on_one_machine_that_is_to_be_left_is_saved_and_ends_with_75) {
  Driver driver(long_run(2));
  driver.start();
  driver.prepared(1);
  driver.on(HostsDraining{.names = {""}, .cause = "its time limit is near"});
  const Outcome outcome = end_after_step(driver, 2);
  BOOST_TEST(outcome.exit_code == 75);
  BOOST_TEST(outcome.reason == "this machine is to be left: its time limit is near");
}

BOOST_AUTO_TEST_CASE(of_too_many_hosts_those_with_the_fewest_ranks_that_came_last_are_left) {
  Driver driver = started_run(4, {{"h0", 3}, {"h1", 3}, {"h2", 1}});
  BOOST_TEST(hosts_of(driver.protocol.configuration()) == "h0 h0 h1 h2");
  driver.on(HostJoined{.host = {"h9", 1}, .now_s = 2});
  const auto effects = order(driver, {.hosts = 2});
  BOOST_TEST(told_hosts(effects) == "h9 draining, h2 draining");
  BOOST_TEST(started(effects) == "3 h1");
  carry_out(driver);
  const auto commits = driver.prepared(3);
  BOOST_TEST_REQUIRE(find<AnswerScale>(commits));
  BOOST_TEST(find<AnswerScale>(commits)->refused == "");
  BOOST_TEST(hosts_of(driver.protocol.configuration()) == "h0 h0 h1 h1");
}

BOOST_AUTO_TEST_CASE(another_shape_may_be_ordered_with_fewer_hosts) {
  Driver driver = started_run(4, {{"h0", 2}, {"h1", 2}});
  order(driver, {.pp = 2, .without_hosts = {"h0"}});
  carry_out(driver);
  BOOST_TEST(find<AnswerScale>(driver.prepared(3))->refused == "");
  BOOST_TEST(hosts_of(driver.protocol.configuration()) == "h1 h1");
}

BOOST_AUTO_TEST_CASE(a_number_of_hosts_that_cannot_be_is_refused_with_the_numbers) {
  Driver alone(long_run(2));
  alone.start();
  BOOST_TEST(refused(alone, {.hosts = 2}) == "--hosts 2: the run is on one machine");
  Driver driver = started_run(2, {{"h0", 2}, {"h1", 2}});
  BOOST_TEST(refused(driver, {.hosts = 0}) == "--hosts 0: at least 1 host is needed");
  BOOST_TEST(refused(driver, {.hosts = 2}) ==
             "--hosts 2: that is what the run has already: h0, h1");
  BOOST_TEST(refused(driver, {.hosts = 3}) ==
             "--hosts 3: 2 hosts may have ranks: h0, h1; on another one, troupe join offers it to "
             "the run");
  BOOST_TEST(refused(driver, {.without_hosts = {"h1"}, .hosts = 2}) ==
             "--without-host h1 --hosts 2: 1 host may have ranks then: h0; on another one, troupe "
             "join offers it to the run");
  BOOST_TEST(refused(driver, {.without_hosts = {"h0", "h1"}}) ==
             "without host h0, h1 no other can hold the run");
  BOOST_TEST(driver.protocol.hosts().is_up("h0"));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::actors
