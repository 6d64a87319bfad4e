#pragma once

#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "tests/hosts/lab.h"
#include "tests/support/small_manifest.h"
#include "tests/support/troupe_program.h"

// Runs of the program on the hosts of a lab, which its launcher on host 0 reaches by ssh.

namespace troupe::test {

/// The program under test, by a path that all hosts see.
std::string binary_on_hosts();
/// `keys` with those that let the launcher start agents in the lab.
Keys on_hosts(Keys keys = {});
/// The words of a launch on these hosts, the text of a hostfile.
std::vector<std::string> launch_on_hosts(const Workplace& place, const std::string& manifest,
                                         const std::string& hosts);
/// What runs of the program on a host.
std::vector<Lab::Process> programs_on(const Lab& lab, int host);
/// The agent of a host; 0 if there is none.
pid_t agent_on(const Lab& lab, int host);
/// The first worker of a host; 0 if there is none.
pid_t worker_on(const Lab& lab, int host);
/// What each step of the same run in processes of one machine measured.
std::map<int, StepNumbers> alone(const Workplace& place, const std::string& name,
                                 const Keys& keys = {});
/// Blocks until the run's events have one of this kind with these fields.
void wait_for_event(const std::string& run_dir, const std::string& kind,
                    const std::map<std::string, std::string>& fields = {});
/// How many it has.
std::size_t num_events(const std::string& run_dir, const std::string& kind,
                       const std::map<std::string, std::string>& fields = {});
/// Its failures, a line for each: "" for a run that lost nothing.
std::string failures(const std::string& run_dir);
/// The hosts that the run has lost and that are not there again.
std::set<std::string> lost_hosts(const std::string& run_dir);

}  // namespace troupe::test
