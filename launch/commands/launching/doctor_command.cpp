#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <utility>

#include "launch/commands/doctor.h"
#include "launch/commands/launching/join_run.h"
#include "launch/commands/options.h"
#include "launch/host/console.h"
#include "launch/host/machine.h"
#include "launch/host/signals.h"
#include "launch/hosts/gathering.h"
#include "launch/hosts/job.h"
#include "launch/hosts/look_at_hosts.h"
#include "launch/manifest/inputs/inputs.h"
#include "tensor/errors/error.h"

namespace troupe::launch {
namespace {

int examine_this_machine() {
  const std::vector<Checkup> checkups = examine_machine(own_gpus());
  for (const Checkup& checkup : checkups) print(to_text(checkup));
  const bool fit = std::ranges::none_of(
      checkups, [](const Checkup& c) { return c.result == Checkup::Result::failure; });
  return fit ? 0 : static_cast<int>(ErrorKind::unavailable);
}

/// Lets the hosts of a run join as for a launch, looks at them and lets them go.
int examine_hosts(const DoctorOptions& options) {
  const Machine machine = this_machine();
  const Job job = job_of(own_environment());
  Manifest manifest = load_manifest(options.hosts, options.overrides, machine);
  keep_hosts(options.with, manifest);
  if (!job.is_first) {
    SignalWatch signals;
    return join_of_job(options.with, job, manifest, manifest->dir, signals);
  }
  HostsPlan plan = plan_hosts(options.with, manifest, job);
  if (plan.start == HostsPlan::Start::none)
    throw Error(ErrorKind::usage,
                "doctor --hosts: the run is on this machine alone; name hosts in cluster.hosts, by "
                "--hostfile or --wait-for-hosts");
  HostGathering gathering(std::move(plan), manifest, machine);
  if (!options.json) print(gathering.join_line());
  gathering.wait([&](const std::string& text) {
    if (!options.json) print(text);
  });
  const HostsFound found = look_at_hosts(gathering, manifest);
  const Preflight judged = judge(found);
  if (options.json) {
    print(to_json(found, judged).dump(2) + "\n");
  } else {
    print(to_text(found));
    for (const std::string& warning : judged.warnings) print("warning   " + warning + "\n");
    for (const std::string& refusal : judged.refusals) print("refused   " + refusal + "\n");
  }
  return judged.refusals.empty() ? 0 : static_cast<int>(ErrorKind::unavailable);
}

}  // namespace

int run(const DoctorOptions& options) {
  return options.hosts.empty() ? examine_this_machine() : examine_hosts(options);
}

}  // namespace troupe::launch
