#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "actors/hosts/survey.h"
#include "actors/topology/run_spec.h"

namespace troupe::launch {

/// What is known of the hosts of a run before it starts anything on them.
struct HostsFound {
  struct One {
    actors::Host host;
    int ranks = 0;  ///< that it may have, a spare host as many as the fullest one
    actors::SurveyResult::Entry survey;
  };
  std::vector<One> hosts;
  /// The way from the launcher to each host but its own, by name.
  std::map<std::string, actors::LinkProbe> from_launcher;
  std::map<std::string, std::string> traits;  ///< HostHello::traits, equal on all of them
  std::string ports;                          ///< cluster.ports
};

/// The judgement on the hosts of a run. Each text names a host, what is wrong with it, and what to
/// do about it.
struct Preflight {
  std::vector<std::string> refusals;
  std::vector<std::string> warnings;
};
Preflight judge(const HostsFound& found);

/// A line for each host, one for the ways between them, one for what is equal on all. For people.
std::string to_text(const HostsFound& found);
/// {hosts, links, equal, refusals, warnings}.
nlohmann::json to_json(const HostsFound& found, const Preflight& judged);

}  // namespace troupe::launch
