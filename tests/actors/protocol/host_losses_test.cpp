#include <algorithm>
#include <boost/test/unit_test.hpp>

#include "tests/support/hosts_driver.h"
#include "tests/support/run_specs.h"

// Hosts that are lost with all their workers, and what the run goes on with.

namespace troupe::actors {

BOOST_AUTO_TEST_SUITE(host_losses_test)

namespace {

RunSpec with_spare_host(RunSpec spec) {
  spec.recovery.spare_hosts = 1;
  return spec;
}

int count_of_losses(const std::vector<Effect>& effects) {
  return static_cast<int>(std::count_if(effects.begin(), effects.end(), [](const Effect& e) {
    return std::holds_alternative<ReportWorkerLost>(e);
  }));
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_run_starts_on_its_hosts_and_keeps_the_last_ones_free) {
  Driver driver = on_hosts(with_spare_host(test::small_run(2)), {{"h0"}, {"h1"}, {"h2"}});
  const auto effects = driver.on(Started{});
  BOOST_TEST(started(effects) == "0 h0, 1 h1");
  BOOST_TEST(told_hosts(effects) == "h2 spare");
}

BOOST_AUTO_TEST_CASE(a_run_without_its_hosts_does_not_start) {
  RunSpec spec = test::small_run(2);
  spec.cluster.hosts = {{"h0", 2}};
  Driver driver(spec);
  const auto effects = driver.on(Started{});
  BOOST_TEST_REQUIRE(find<End>(effects));
  BOOST_TEST(find<End>(effects)->outcome.exit_code == 69);
}

/// Nothing that was started before can be on a host, so a run on one machine knows none.
BOOST_AUTO_TEST_CASE(a_run_on_one_machine_takes_no_host) {
  Driver driver(test::small_run(2));
  driver.start();
  const auto effects = driver.on(HostJoined{.host = {"h1", 2}});
  BOOST_TEST_REQUIRE(find<ReportRefused>(effects));
  BOOST_TEST(find<ReportRefused>(effects)->why == "host h1, but the run is on one machine");
  BOOST_TEST(driver.on(HostLost{.name = "h1"}).empty());
}

BOOST_AUTO_TEST_CASE(a_lost_host_is_one_failure_and_its_ranks_go_to_the_spare_one) {
  Driver driver = on_hosts(with_spare_host(test::small_run(4)), {{"h0", 2}, {"h1", 2}, {"h2", 2}});
  driver.start();
  driver.prepared(1);
  const Configuration before = driver.protocol.configuration();
  BOOST_TEST(hosts_of(before) == "h0 h0 h1 h1");
  const auto late = std::pair(driver.exited(2, false), driver.exited(3, false));
  const auto effects = driver.on(HostLost{.name = "h1", .cause = "silence for 3 s", .now_s = 5});
  BOOST_TEST(told_hosts(effects) == "h1 lost");
  BOOST_TEST(count_of_losses(effects) == 1);
  const ReportWorkerLost& lost = *find<ReportWorkerLost>(effects);
  BOOST_TEST(lost.rank == 2);
  BOOST_TEST(lost.others == std::vector{3}, boost::test_tools::per_element());
  BOOST_TEST(lost.cause == "host h1 was lost: silence for 3 s");
  BOOST_TEST(started(effects) == "2 h2, 3 h2");
  BOOST_TEST(find<OrderHalt>(effects)->halt.reconnect);
  BOOST_TEST(driver.on(late.first).empty());
  BOOST_TEST(driver.on(late.second).empty());
  BOOST_TEST(driver.on(HostLost{.name = "h1", .cause = "again", .now_s = 6}).empty());
  const auto begins = gather_all(driver, 1);
  const auto* start = find<StartConfiguration>(begins);
  BOOST_TEST_REQUIRE(start);
  BOOST_TEST(hosts_of(start->configuration) == "h0 h0 h2 h2");
  for (const int rank : {2, 3})  // whoever was lost may still send as who it was
    for (const int old : {2, 3})
      BOOST_TEST(start->configuration.members.at(rank).id != before.members.at(old).id);
  BOOST_TEST(told_hosts(driver.ready()) == "h2 joined");
}

BOOST_AUTO_TEST_CASE(a_process_that_ends_is_replaced_on_its_own_host) {
  RunSpec spec = with_spare_host(test::small_run(2));
  spec.recovery.spares = 1;
  Driver driver = on_hosts(spec, {{"h0"}, {"h1"}, {"h2"}});
  driver.start();
  BOOST_TEST(started(driver.prepared(1)) == "-1 h2");
  join_all(driver);
  BOOST_TEST(started(driver.on(driver.exited(1, false))) == "1 h1");
}

BOOST_AUTO_TEST_CASE(all_shards_of_a_stage_move_with_their_host_but_none_for_one_process) {
  RunSpec spec = with_spare_host(test::small_run(2));
  spec.model.num_key_value_heads = 2;
  spec.mesh.tp = 2;
  Driver driver = on_hosts(spec, {{"h0", 2}, {"h1", 2}, {"h2", 2}});
  driver.start();
  driver.prepared(1);
  BOOST_TEST(started(driver.on(driver.exited(3, false))) == "3 h1");
  BOOST_TEST(started(driver.on(HostLost{.name = "h1", .now_s = 2})) == "2 h2, 3 h2");
}

BOOST_AUTO_TEST_CASE(without_room_elsewhere_the_cluster_shrinks) {
  Driver driver = on_hosts(test::small_run(4), {{"h0", 2}, {"h1", 2}});
  driver.start();
  driver.prepared(1);
  driver.prepared(2);
  BOOST_TEST(started(driver.on(HostLost{.name = "h1", .now_s = 2})) == "");
  const auto effects = gather_all(driver, 2);
  const auto* start = find<StartConfiguration>(effects);
  BOOST_TEST_REQUIRE(start);
  BOOST_TEST(start->configuration.shape.mesh.pp == 2);
  BOOST_TEST(hosts_of(start->configuration) == "h0 h0");
  BOOST_TEST(start->state.from_memory);
}

BOOST_AUTO_TEST_CASE(whole_replicas_go_on_where_there_is_room_for_one) {
  RunSpec spec = test::small_run(2, 2);
  spec.batch.global = 8;
  Driver driver = on_hosts(spec, {{"h0", 2}, {"h1", 2}});
  driver.start();
  driver.prepared(1);
  driver.on(HostLost{.name = "h0", .now_s = 2});
  const auto effects = gather_all(driver, 1);
  const auto* start = find<StartConfiguration>(effects);
  BOOST_TEST_REQUIRE(start);
  BOOST_TEST(start->configuration.shape.mesh.dp == 1);
  BOOST_TEST(hosts_of(start->configuration) == "h1 h1");
  BOOST_TEST(start->state.from_memory);
}

/// Exits that an agent has told of before its host was lost are of the same failure.
BOOST_AUTO_TEST_CASE(a_host_and_its_workers_count_once_and_two_hosts_twice) {
  RunSpec spec = test::small_run(3);
  spec.recovery.restarts_per_hour = 1;
  Driver driver = on_hosts(spec, {{"h0", 3}, {"h1", 3}, {"h2", 3}});
  driver.start();
  driver.prepared(1);
  driver.on(driver.exited(1, false));
  driver.on(HostLost{.name = "h1", .now_s = 2});
  BOOST_TEST(!driver.protocol.stopping());
  driver.on(HostLost{.name = "h2", .now_s = 3});
  BOOST_TEST(driver.protocol.stopping());
}

BOOST_AUTO_TEST_CASE(a_host_that_joins_anew_before_its_loss_was_noticed_has_lost_its_workers) {
  Driver driver = on_hosts(test::small_run(2), {{"h0", 1}, {"h1", 1}});
  driver.start();
  driver.prepared(1);
  const auto effects = driver.on(HostJoined{.host = {"h1", 1}, .now_s = 2});
  BOOST_TEST(told_hosts(effects) == "h1 lost, h1 spare");
  BOOST_TEST(count_of_losses(effects) == 1);
}

BOOST_AUTO_TEST_CASE(an_end_does_not_wait_for_workers_of_a_lost_host) {
  Driver driver = on_hosts(test::small_run(2), {{"h0", 1}, {"h1", 1}});
  driver.start();
  driver.on(StopNowOrdered{.reason = "stopped"});
  driver.on(driver.exited(0));
  BOOST_TEST(find<End>(driver.on(HostLost{.name = "h1", .now_s = 2})));
}

BOOST_AUTO_TEST_CASE(the_loss_of_the_only_host_ends_the_run) {
  Driver driver = on_hosts(test::small_run(2), {{"h0", 2}});
  driver.start();
  driver.prepared(1);
  const auto effects = driver.on(HostLost{.name = "h0", .cause = "it left", .now_s = 2});
  const auto* end = find<End>(effects);
  BOOST_TEST_REQUIRE(end);
  BOOST_TEST(end->outcome.exit_code == 70);
  BOOST_TEST(end->outcome.reason.starts_with("host h0 was lost: it left; no smaller cluster"));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::actors
