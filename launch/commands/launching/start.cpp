#include "launch/commands/launching/start.h"

#include <fmt/format.h>

#include <utility>

#include "launch/commands/launching/best_layout.h"
#include "launch/host/progress_line.h"
#include "launch/hosts/hosts_plan.h"
#include "launch/manifest/inputs/inputs.h"
#include "launch/manifest/resolve/adapter.h"
#include "launch/manifest/resolve/resolve.h"
#include "schedules/plan/counted.h"
#include "tensor/errors/error.h"

namespace troupe::launch {
namespace {

stages::Progress verifying() {
  return progress_line("verifying the checkpoint,");
}

void refuse_overrides(const std::vector<std::string>& overrides,
                      std::initializer_list<const char*> keys, const std::string& why) {
  for (const std::string& override_ : overrides)
    for (const char* key : keys)
      if (override_.starts_with(std::string(key) + "="))
        throw Error(ErrorKind::usage, fmt::format("--set {}: {}", key, why));
}

/// What the layout of a new run is looked for, by what its command, its manifest or its job says of
/// hosts.
LayoutTarget target_of(const LaunchOptions& options, Manifest manifest, const Job& job) {
  LayoutTarget target{.devices = options.devices, .machine = options.machine};
  keep_hosts(options.hosts, manifest);
  HostsPlan plan = plan_hosts(options.hosts, manifest, job);
  target.hosts = std::move(plan.named);
  if (plan.start == HostsPlan::Start::none || !target.hosts.empty() || target.devices > 0)
    return target;
  target.devices = job.num_processes;
  if (target.devices == 0)
    manifest.fail_as(ErrorKind::usage, manifest->auto_mesh,
                     "mesh.auto = true: how many devices {} have that come by themselves is known "
                     "too late; give --devices N, or name them with their slots in cluster.hosts",
                     schedules::counted(plan.count, "host"));
  return target;
}

Start new_run(const LaunchOptions& options, const Machine& machine, const Job& job) {
  Start start{.manifest =
                  options.from.empty()
                      ? load_manifest(options.manifest, options.overrides, machine)
                      : manifest_of_model(options.from, options.files, options.overrides, machine)};
  if (options.devices > 0 || start.manifest->auto_mesh)
    start.manifest =
        with_best_layout(start.manifest, target_of(options, start.manifest, job), machine);
  else if (!options.machine.empty())
    throw Error(ErrorKind::usage,
                "--machine says on what devices a layout is looked for, and the manifest has one: "
                "give --devices N too, or mesh.auto = true in its place");
  start.goes_on_from = check_start(start.manifest, verifying(), machine.free_threads);
  RunDirectory::check_free(start.manifest->dir);
  start.changed = start.manifest->changed;
  start.manifest->changed.clear();
  return start;
}

/// Owns the run's directory from now on.
Start resumed_run(const LaunchOptions& options, const Machine& machine) {
  refuse_overrides(options.overrides, {"run.dir"}, "a resumed run stays in its directory");
  const auto path =
      (std::filesystem::absolute(options.resume) / "").lexically_normal().parent_path();
  auto lost = find_lost_run(path);
  RunDirectory directory = take_directory(path, lost);
  Start start{.manifest =
                  load_manifest(path / kManifestFile, options.overrides, machine, Purpose::resume)};
  start.resumed = true;
  start.directory.emplace(std::move(directory));
  // The directory may have been moved since; the run continues where it is now.
  start.manifest.resolve(start.manifest->dir, path.string());
  start.lost = std::move(lost);
  // Hosts wait for a launcher, but not for ever.
  start.point = find_resume_point(path, verifying(), machine.free_threads, !start.lost,
                                  base_of(*start.manifest));
  const ResumePoint& point = start.point;
  if (!point.checkpoint) {
    if (!point.torn.empty())
      throw Error(ErrorKind::data, fmt::format("{} has no checkpoint to go on from: {}",
                                               path.string(), point.torn.front().reason));
    start.goes_on_from = check_start(start.manifest, verifying(), machine.free_threads);
    return start;
  }
  refuse_overrides(
      options.overrides, {"checkpoint.resume", "checkpoint.weights_only"},
      fmt::format("a resumed run goes on from its own newest checkpoint; start a new run with: "
                  "troupe launch {}/{} --set run.dir=DIR --set checkpoint.resume={}",
                  path.string(), kManifestFile, point.path.string()));
  start.goes_on_from = point.checkpoint->info();
  if (start.step() < start.manifest->max_steps) check_fits(start.manifest, *point.checkpoint);
  start.point.checkpoint.reset();  // the run needs its open files no more
  return start;
}

}  // namespace

Start decide_start(const LaunchOptions& options, const Machine& machine, const Job& job) {
  return options.resume.empty() ? new_run(options, machine, job) : resumed_run(options, machine);
}

Manifest trained_manifest(const Start& start) {
  Manifest manifest = start.manifest;
  if (start.point.path.empty()) return manifest;
  manifest->checkpoint.resume = start.point.path.string();
  manifest->checkpoint.weights_only = false;
  return manifest;
}

}  // namespace troupe::launch
