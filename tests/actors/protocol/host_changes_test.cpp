#include <boost/test/unit_test.hpp>

#include "tests/support/hosts_driver.h"

// Hosts that join, and hosts that are to be left: the changes that the run orders by itself.

namespace troupe::actors {

BOOST_AUTO_TEST_SUITE(host_changes_test)

namespace {

std::vector<Effect> ring(Driver& driver, const std::vector<Effect>& effects, double now_s) {
  const auto* timer = find<StartGrowTimer>(effects);
  BOOST_TEST_REQUIRE(timer);
  return driver.on(GrowTimerRang{.timer = timer->timer, .now_s = now_s});
}

/// A run of four stages that has lost the second of two hosts, and goes on with two.
Driver shrunk_run() {
  Driver driver = on_hosts(long_run(4), {{"h0", 2}, {"h1", 2}});
  driver.start();
  driver.prepared(1);
  driver.prepared(2);
  driver.on(HostLost{.name = "h1", .cause = "silence", .now_s = 2});
  gather_all(driver, 2);
  driver.ready();
  driver.prepared(3);
  return driver;
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_host_that_returns_and_stands_makes_the_cluster_whole_again) {
  Driver driver = shrunk_run();
  const auto joins = driver.on(HostJoined{.host = {"h1", 2}, .now_s = 20});
  BOOST_TEST(told_hosts(joins) == "h1 spare");
  BOOST_TEST(find<StartGrowTimer>(joins)->seconds == 10);
  BOOST_TEST(started(ring(driver, joins, 30)) == "2 h1, 3 h1");
  join_all(driver);
  driver.warm();
  const auto halts = driver.prepared(4);
  BOOST_TEST(find<OrderHalt>(halts)->halt.reconnect == false);
  BOOST_TEST(find<OrderHalt>(halts)->change == "--pp 4");
  const auto begins = gather_all(driver, 4);
  BOOST_TEST(hosts_of(find<StartConfiguration>(begins)->configuration) == "h0 h0 h1 h1");
  BOOST_TEST(told_hosts(driver.ready()) == "h1 joined");
  const auto commits = driver.prepared(5);
  BOOST_TEST(!find<AnswerScale>(commits));  // nobody has asked
  BOOST_TEST(!find<ReportGivenUp>(commits));
}

BOOST_AUTO_TEST_CASE(a_cluster_grows_at_most_every_five_minutes) {
  Driver driver = shrunk_run();
  ring(driver, driver.on(HostJoined{.host = {"h1", 2}, .now_s = 20}), 30);
  driver.on(HostLost{.name = "h1", .now_s = 31});
  const auto joins = driver.on(HostJoined{.host = {"h1", 2}, .now_s = 40});
  const auto later = ring(driver, joins, 50);
  BOOST_TEST(started(later) == "");
  BOOST_TEST(find<StartGrowTimer>(later)->seconds == 280);
  BOOST_TEST(started(ring(driver, later, 330)) == "2 h1, 3 h1");
}

BOOST_AUTO_TEST_CASE(a_growth_that_fails_is_told_and_changes_nothing) {
  Driver driver = shrunk_run();
  ring(driver, driver.on(HostJoined{.host = {"h1", 2}, .now_s = 20}), 30);
  std::vector<Effect> effects;
  for (const int rank : {2, 3, 3}) effects = driver.on(driver.exited(rank, false));
  BOOST_TEST_REQUIRE(find<ReportGivenUp>(effects));
  BOOST_TEST(find<ReportGivenUp>(effects)->change == "--pp 4");
  BOOST_TEST(find<StartGrowTimer>(effects)->seconds == 300);
  BOOST_TEST(find<OrderStep>(driver.prepared(4)));
}

BOOST_AUTO_TEST_CASE(a_cluster_that_is_not_to_grow_back_does_not) {
  RunSpec spec = long_run(2);
  spec.recovery.grow_back = false;
  Driver driver = on_hosts(spec, {{"h0", 1}, {"h1", 1}});
  driver.start();
  driver.prepared(1);
  driver.on(HostLost{.name = "h1", .now_s = 2});
  gather_all(driver, 1);
  driver.ready();
  BOOST_TEST(!find<StartGrowTimer>(driver.on(HostJoined{.host = {"h1", 1}, .now_s = 3})));
}

/// What was ordered counts, not the manifest.
BOOST_AUTO_TEST_CASE(a_cluster_does_not_outgrow_an_order) {
  Driver driver = on_hosts(long_run(2), {{"h0", 2}, {"h1", 2}});
  driver.start();
  driver.prepared(1);
  driver.on(ScaleOrdered{.order = 1, .request = {.pp = 1}});
  carry_out(driver);
  BOOST_TEST(find<AnswerScale>(driver.prepared(3))->refused.empty());
  driver.on(HostLost{.name = "h1", .now_s = 2});
  BOOST_TEST(started(ring(driver, driver.on(HostJoined{.host = {"h1", 2}}), 30)) == "");
}

BOOST_AUTO_TEST_CASE(a_host_that_is_left_gives_its_state_away) {
  Driver driver = on_hosts(long_run(4), {{"h0", 2}, {"h1", 2}, {"h2", 1}, {"h3", 1}});
  driver.start();
  driver.prepared(1);
  const std::string before = hosts_of(driver.protocol.configuration());
  BOOST_TEST(before == "h0 h1 h2 h3");
  auto effects = driver.on(HostsDraining{.names = {"h3"}, .cause = "SIGTERM"});
  BOOST_TEST(told_hosts(effects) == "h3 draining");
  BOOST_TEST(started(effects) == "3 h0");
  BOOST_TEST(!find<OrderHalt>(effects));
  join_all(driver);
  driver.warm();
  const auto halts = driver.prepared(2);
  BOOST_TEST(find<OrderHalt>(halts)->change == "--without-host h3");
  const auto begins = gather_all(driver, 2);
  const auto* start = find<StartConfiguration>(begins);
  BOOST_TEST_REQUIRE(start);
  BOOST_TEST(hosts_of(start->configuration) == "h0 h1 h2 h0");
  BOOST_TEST(start->configuration.members.size() == 5);  // one gives its state away
  BOOST_TEST(start->state.from_memory);
  BOOST_TEST(start->state.step == 2);
  effects = driver.ready();
  BOOST_TEST(find<OrderLeave>(effects));
  driver.prepared(3);
  effects = driver.on(HostLost{.name = "h3", .cause = "it has left", .now_s = 9});
  BOOST_TEST(told_hosts(effects) == "h3 lost");
  BOOST_TEST(!find<ReportWorkerLost>(effects));
}

BOOST_AUTO_TEST_CASE(without_room_a_host_is_left_by_a_smaller_cluster) {
  Driver driver = on_hosts(long_run(4), {{"h0", 2}, {"h1", 2}});
  driver.start();
  driver.prepared(1);
  BOOST_TEST(started(driver.on(HostsDraining{.names = {"h1"}, .cause = "SIGTERM"})) == "");
  carry_out(driver);
  BOOST_TEST(hosts_of(driver.protocol.configuration()) == "h0 h0");
  const auto joins = driver.on(HostJoined{.host = {"h1", 2}, .now_s = 20});  // a new life
  BOOST_TEST(started(ring(driver, joins, 30)) == "");  // the first step is not committed yet
  BOOST_TEST(started(driver.prepared(3)) == "2 h1, 3 h1");
}

BOOST_AUTO_TEST_CASE(a_run_that_only_hosts_to_be_left_can_hold_is_saved_and_ends_with_75) {
  Driver driver = on_hosts(long_run(2), {{"h0", 1}, {"h1", 1}});
  driver.start();
  driver.prepared(1);
  driver.on(HostsDraining{.names = {"h0"}, .cause = "SIGTERM"});
  driver.on(HostsDraining{.names = {"h1"}, .cause = "SIGTERM"});
  BOOST_TEST(driver.protocol.stopping());
  const Outcome outcome = end_after_step(driver, 2);
  BOOST_TEST(outcome.exit_code == 75);
  BOOST_TEST(outcome.step == 2);
  BOOST_TEST(outcome.reason == "no host but those that are to be left (h0, h1) can hold the run");
}

BOOST_AUTO_TEST_CASE(an_order_to_leave_a_host_is_answered_like_any) {
  Driver driver = on_hosts(long_run(2), {{"h0", 1}, {"h1", 1}, {"h2", 1}});
  driver.start();
  driver.prepared(1);
  BOOST_TEST(started(driver.on(ScaleOrdered{.order = 7, .request = {.without_hosts = {"h0"}}})) ==
             "0 h2");
  carry_out(driver);
  const auto commits = driver.prepared(3);
  BOOST_TEST_REQUIRE(find<AnswerScale>(commits));
  BOOST_TEST(find<AnswerScale>(commits)->order == 7u);
  BOOST_TEST(find<AnswerScale>(commits)->refused == "");
  BOOST_TEST((driver.protocol.hosts().find("h0")->state == HostState::draining));
}

BOOST_AUTO_TEST_CASE(an_order_to_leave_a_host_that_cannot_be_left_is_refused) {
  const auto refused = [](Driver& driver, const std::string& host) {
    const auto effects = driver.on(ScaleOrdered{.order = 1, .request = {.without_hosts = {host}}});
    return find<AnswerScale>(effects) ? find<AnswerScale>(effects)->refused : "";
  };
  Driver alone(long_run(2));
  alone.start();
  BOOST_TEST(refused(alone, "h0") == "--without-host h0: the run is on one machine");
  Driver driver = on_hosts(long_run(2), {{"h0", 2}});
  driver.start();
  BOOST_TEST(refused(driver, "h9") == "--without-host h9: the run has the hosts h0");
  BOOST_TEST(refused(driver, "h0") == "without host h0 no other can hold the run");
  BOOST_TEST(driver.protocol.hosts().is_up("h0"));
  BOOST_TEST(!driver.protocol.stopping());
}

BOOST_AUTO_TEST_CASE(an_order_for_which_the_hosts_have_no_room_is_refused_with_the_numbers) {
  Driver driver = on_hosts(long_run(2), {{"h0", 1}, {"h1", 2}});
  driver.start();
  const auto effects = driver.on(ScaleOrdered{.order = 1, .request = {.pp = 4}});
  const auto* answer = find<AnswerScale>(effects);
  BOOST_TEST_REQUIRE(answer);
  BOOST_TEST((answer->kind == ErrorKind::unavailable));
  BOOST_TEST(answer->refused.find("h0 1, h1 2") != std::string::npos, answer->refused);
}

/// A host may be left at any moment: here while the workers have halted for another reason.
BOOST_AUTO_TEST_CASE(a_configuration_that_is_gathered_leaves_the_host_at_once) {
  Driver driver = on_hosts(long_run(2), {{"h0", 1}, {"h1", 1}, {"h2", 1}});
  driver.start();
  driver.prepared(1);
  driver.on(driver.exited(0, false));
  BOOST_TEST(started(driver.on(HostsDraining{.names = {"h1"}, .cause = "USR1"})) == "1 h2");
  const auto begins = gather_all(driver, 1);
  BOOST_TEST(hosts_of(find<StartConfiguration>(begins)->configuration) == "h0 h2");
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::actors
