#pragma once

#include <boost/test/unit_test.hpp>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/protocol_driver.h"
#include "tests/support/run_specs.h"

// A DirectorProtocol of a run on several hosts, driven event by event.

namespace troupe::actors {

/// The run on these hosts, which are named in `spec` and have joined.
inline Driver on_hosts(RunSpec spec, const std::vector<Host>& hosts) {
  spec.cluster.hosts = hosts;
  Driver driver(std::move(spec));
  for (const Host& host : hosts) driver.on(HostJoined{.host = host});
  return driver;
}

/// "0 h1, 2 h0": the ranks, -1 for a spare, and hosts of the workers that are started.
inline std::string started(const std::vector<Effect>& effects) {
  std::string text;
  for (const Effect& effect : effects)
    if (const auto* spawn = std::get_if<SpawnWorker>(&effect))
      text += (text.empty() ? "" : ", ") + std::to_string(spawn->rank) + " " + spawn->host;
  return text;
}

/// "h1 lost, h2 joined": the states that are reported.
inline std::string told_hosts(const std::vector<Effect>& effects) {
  std::string text;
  for (const Effect& effect : effects)
    if (const auto* host = std::get_if<ReportHost>(&effect))
      text += (text.empty() ? "" : ", ") + host->host + " " +
              std::string(kHostStates.at(static_cast<std::size_t>(host->state)));
  return text;
}

/// The hosts of a configuration's ranks: "h0 h0 h1".
inline std::string hosts_of(const Configuration& configuration) {
  std::string text;
  for (int rank = 0; rank < configuration.num_ranks(); ++rank)
    text += (rank > 0 ? " " : "") + configuration.members.at(rank).host;
  return text;
}

/// Lets everybody who is asked to halt do so, with the state of `step`, and whoever was started
/// join. Returns the effects of the last answer.
inline std::vector<Effect> gather_all(Driver& driver, std::int64_t step) {
  std::vector<Effect> last;
  std::vector<std::pair<std::uint64_t, Roster::Worker>> all(driver.protocol.roster().begin(),
                                                            driver.protocol.roster().end());
  const Configuration kept = driver.protocol.configuration();
  for (const auto& [incarnation, worker] : all) {
    if (worker.leaving) continue;
    if (!worker.joined) {
      last =
          driver.on(MemberJoined{.member = {.id = worker.member.id, .incarnation = incarnation}});
      continue;
    }
    const bool has_state = kept.rank_of(incarnation) >= 0;
    StateInventory inventory{.step = has_state ? step : -1, .has_previous = has_state};
    if (has_state)
      inventory.copies = {
          {.rank = copy_ring(kept).source_of(kept.shape, kept.rank_of(incarnation)), .step = step}};
    last = driver.on(Halted{.configuration = driver.protocol.configuration().number + 1,
                            .incarnation = incarnation,
                            .address = "",
                            .inventory = inventory});
  }
  return last;
}

/// Lets whoever was started, and has not joined, join.
inline std::vector<Effect> join_all(Driver& driver) {
  std::vector<Effect> last;
  std::vector<Member> newcomers;
  for (const auto& [incarnation, worker] : driver.protocol.roster())
    if (!worker.joined && !worker.leaving) newcomers.push_back(worker.member);
  for (const Member& member : newcomers) last = driver.on(MemberJoined{.member = member});
  return last;
}

/// A run of many steps.
inline RunSpec long_run(int pp) {
  RunSpec spec = test::small_run(pp);
  spec.max_steps = 100;
  return spec;
}

/// Carries out the change that has been ordered, after the step in progress.
inline void carry_out(Driver& driver) {
  join_all(driver);
  driver.warm();
  const std::int64_t step = driver.protocol.committed() + 1;
  BOOST_TEST_REQUIRE(find<OrderHalt>(driver.prepared(step)));
  BOOST_TEST_REQUIRE(find<StartConfiguration>(gather_all(driver, step)));
  BOOST_TEST_REQUIRE(find<OrderStep>(driver.ready()));
}

/// Lets the run save its last step and end.
inline Outcome end_after_step(Driver& driver, std::int64_t step) {
  BOOST_TEST_REQUIRE(find<OrderSave>(driver.prepared(step)));
  driver.saved(step);
  BOOST_TEST(find<Finish>(driver.on(Published{.step = step})));
  return end_of(driver);
}

}  // namespace troupe::actors
