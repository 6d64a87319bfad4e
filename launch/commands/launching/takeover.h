#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "actors/director/cluster.h"
#include "launch/host/console_writer.h"
#include "launch/hosts/gathering.h"
#include "launch/hosts/hosts_plan.h"
#include "launch/hosts/hosts_record.h"
#include "launch/run/run_directory.h"

namespace troupe::launch {

/// A run on several hosts whose launcher is gone without having ended it, as another one finds it.
struct LostRun {
  HostsRecord record;
  std::vector<actors::AgentRecord> agents;  ///< of the record, those that answer
  std::string fate;                         ///< what became of the launcher, for people
};

/// What is left of the run in this directory; none if it has ended, was on one machine, or no host
/// of it answers. Asks its hosts for some seconds at most. Throws Error{manifest} if its launcher
/// is there, Error{retry} if that cannot be told from here, Error{unavailable} if its hosts have
/// another program than this one.
std::optional<LostRun> find_lost_run(const std::filesystem::path& run);

/// Makes the run's directory this launcher's, also if the lost one still holds its lock.
RunDirectory take_directory(const std::filesystem::path& run, const std::optional<LostRun>& lost);

/// How the hosts of a lost run come together again: those which answer are taken over, with their
/// workers or without, the others as they did before. Tells what becomes of them.
HostsPlan plan_takeover(const LostRun& lost, std::int64_t term, bool keeps_workers,
                        ConsoleWriter& console);

/// What a cluster has to know of the lost launcher whose workers it adopts; none if there is none.
std::optional<actors::ClusterOptions::Predecessor> predecessor_of(
    const std::optional<LostRun>& lost, const RunDirectory& directory);

/// Notes in the run directory where the hosts are found by a launcher that takes over the run.
void record_hosts(const HostGathering& gathering, const RunDirectory& directory);

}  // namespace troupe::launch
