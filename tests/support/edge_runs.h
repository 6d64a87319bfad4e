#pragma once

#include <signal.h>

#include <set>
#include <string>

#include "tests/support/trained_run.h"

// Runs over ranks on GPUs whose messages go from one to the other in each of the ways that
// cluster.edges names: on one GPU, real or emulated, that all ranks share.

namespace troupe::test {

inline Keys edges_of(const std::string& kind) {
  return {{"cluster.device", "\"cuda\""}, {"cluster.edges", '"' + kind + '"'}};
}

/// What status tells of all edges between different ranks.
inline std::set<std::string> edge_kinds(const std::string& run) {
  std::set<std::string> kinds;
  const nlohmann::json status = status_of(run);
  for (const auto& rank : status.at("ranks")) {
    const nlohmann::json edges = rank.value("edges", nlohmann::json::object());
    for (const auto& [peer, kind] : edges.items())
      if (peer != std::to_string(rank.at("rank").get<int>())) kinds.insert(kind);
  }
  return kinds;
}

/// Stops a run. Every step of it has the bits of one rank alone, which has these keys.
inline void stop_and_compare(const Workplace& place, const std::string& name,
                             TroupeProgram& program, const Keys& alone) {
  BOOST_TEST(troupe({"stop", place.run(name)}).exit_code == 0);
  BOOST_TEST(program.finish().exit_code == 0);
  const Numbers got = step_numbers(place.run(name));
  const std::string last = std::to_string(got.rbegin()->first);
  BOOST_TEST((trained(place, name + "_calm", with(alone, {{"run.max_steps", last}})) == got));
}

/// Trains two stages, then four, then one, and stops. Every step has the bits of one rank alone.
inline void check_scaling(const Workplace& place, const Keys& model) {
  const Keys alone = with(with(model, edges_of("auto")), {{"mesh.pp", "1"}});
  const Keys keys = with(alone, {{"mesh.pp", "2"}, {"run.max_steps", "1000000"}});
  TroupeProgram program({"launch", place.manifest("scaled", keys)});
  for (const char* pp : {"4", "1"}) {
    BOOST_REQUIRE(program.read_until("step "));
    const Finished scaled = troupe({"scale", place.run("scaled"), "--pp", pp});
    BOOST_TEST(scaled.exit_code == 0, scaled.err);
  }
  BOOST_REQUIRE(program.read_until("step "));
  stop_and_compare(place, "scaled", program, alone);
}

/// Trains two stages, kills each rank once while both hold slots, and stops. Every step has the
/// bits of one rank alone.
inline void check_deaths(const Workplace& place, const std::string& kind, const Keys& model) {
  const Keys alone = with(with(model, edges_of(kind)), {{"mesh.pp", "1"}});
  const Keys keys = with(alone, {{"mesh.pp", "2"}, {"run.max_steps", "1000000"}});
  const std::string run = place.run(kind + "_killed");
  TroupeProgram program({"launch", place.manifest(kind + "_killed", keys)});
  const auto is_told = [&] {
    do BOOST_REQUIRE(program.read_until("step "));
    while (edge_kinds(run) != std::set{kind});
  };
  for (const std::size_t rank : {0, 1}) {
    is_told();
    kill(workers_of(run).at(rank), SIGKILL);
    BOOST_REQUIRE(program.read_until("recovered"));
  }
  is_told();
  stop_and_compare(place, kind + "_killed", program, alone);
}

}  // namespace troupe::test
