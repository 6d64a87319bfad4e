#include <fmt/format.h>
#include <fmt/ranges.h>
#include <signal.h>

#include <limits>
#include <optional>
#include <utility>

#include "actors/director/cluster.h"
#include "actors/topology/hosts.h"
#include "launch/commands/launching/cluster_run.h"
#include "launch/commands/launching/join_run.h"
#include "launch/commands/launching/run_end.h"
#include "launch/commands/launching/run_summary.h"
#include "launch/commands/launching/sinks.h"
#include "launch/commands/launching/start.h"
#include "launch/commands/launching/takeover.h"
#include "launch/commands/options.h"
#include "launch/control/control_client.h"
#include "launch/control/control_server.h"
#include "launch/host/console.h"
#include "launch/host/console_writer.h"
#include "launch/host/progress_line.h"
#include "launch/host/resources.h"
#include "launch/host/signals.h"
#include "launch/hosts/gathering.h"
#include "launch/hosts/look_at_hosts.h"
#include "launch/hosts/run_files.h"
#include "launch/manifest/inputs/corpus.h"
#include "launch/manifest/inputs/differences.h"
#include "launch/manifest/inputs/inputs.h"
#include "launch/manifest/inputs/placement.h"
#include "launch/manifest/inputs/warnings.h"
#include "launch/manifest/resolve/changes.h"
#include "launch/manifest/resolve/resolve.h"
#include "launch/manifest/resolve/run_spec.h"
#include "launch/manifest/resolve/tokenizing.h"
#include "launch/manifest/toml/manifest.h"
#include "launch/run/kept_tokens.h"
#include "launch/run/outcome.h"
#include "launch/run/resume.h"
#include "launch/run/run_directory.h"
#include "launch/run/run_log.h"
#include "launch/run/save_hook.h"
#include "tensor/cpu/products/thread_team.h"
#include "tensor/errors/shortage.h"

namespace troupe::launch {
namespace {

/// The threads that a launcher starts beside those for its signals and its console, and some for
/// the page and metrics: five of CAF, four that report, three monitors, the control socket.
constexpr int kThreads = 16;

constexpr std::int64_t kEveryStep = std::numeric_limits<std::int64_t>::max();

/// Says that a resumed run goes on without the hosts that its last launch had: nobody has named
/// any.
void tell_missed_hosts(const Start& start, const std::vector<actors::Host>& hosts,
                       const RunDirectory& directory, ConsoleWriter& console) {
  const auto last =
      start.resumed && hosts.empty() ? read_json(directory.path() / kMachineFile) : std::nullopt;
  if (last && last->contains("hosts"))
    console.show(fmt::format("note      on this host alone; the last launch was on {}\n",
                             fmt::join(last->at("hosts").get<std::vector<std::string>>(), ", ")));
}

/// Writes the first files of the run directory. Until now nothing was changed; from now on the
/// directory belongs to this run.
void write_directory(const Start& start, const Machine& machine,
                     const std::vector<actors::Host>& hosts, const RunDirectory& directory,
                     const ControlServer& control, ConsoleWriter& console) {
  for (const TornCheckpoint& torn : start.point.torn) {
    console.show(fmt::format("going back to step {}: {}; it is kept as {}.torn\n", start.step(),
                             torn.reason, torn.path.string()));
    set_aside(torn);
  }
  for (const std::filesystem::path& other : start.point.of_others)
    console.show(
        fmt::format("note      {} was not written by this run and is left alone; to go on from it: "
                    "troupe launch {}/{} --set run.dir=DIR --set checkpoint.resume={}\n",
                    other.string(), directory.path().string(), kManifestFile, other.string()));
  tell_missed_hosts(start, hosts, directory, console);
  stages::note_newest(directory.path() / kCheckpoints,
                      start.point.path.empty() ? -1 : start.step());
  directory.remove(kOutcomeFile);
  // Steps that are lost with their state are computed again then, and not written again.
  cut_back_metrics(directory.path() / kMetricsFile, start.adopts ? kEveryStep : start.step());
  directory.write(kManifestFile, start.manifest.to_toml());
  nlohmann::json where = to_json(machine);
  where["version"] = TROUPE_VERSION;
  for (const actors::Host& host : hosts) where["hosts"].push_back(host.name);
  directory.write(kMachineFile, where.dump() + "\n");
  directory.write_private(kControlFile, nlohmann::json(control.address()).dump() + "\n");
}

/// Shows what the steps of this launch do differently from the steps before it.
void tell_start(const Start& start, bool resumed, ConsoleWriter& console) {
  for (const Manifest::Rederived& key : start.manifest.rederived())
    console.show(
        fmt::format("derived   {} = {}, was {}\n", key.key, to_toml(key.is), to_toml(key.was)));
  if (!resumed && !start.changed.empty())
    console.show(
        fmt::format("note      the manifest is of a run that was changed on the way, "
                    "which this run does not repeat: {}\n",
                    fmt::join(start.changed, "; ")));
  if (start.adopts) return;
  if (resumed && start.point.path.empty())
    console.show("starting  again: this run has no checkpoint of its own\n");
  if (!start.goes_on_from) return;
  console.show(fmt::format("resuming  after step {}\n", start.step()));
  for (const std::string& difference : differences(start.manifest, *start.goes_on_from).all())
    console.show(fmt::format("differs   {}\n", difference));
}

SaveHook::Command hook_command(const Manifest& manifest) {
  const std::filesystem::path run = manifest->dir;
  return {.text = manifest->on_save,
          .patience_s = manifest->on_save_timeout,
          .log = run / kHookLog,
          .run = run.string()};
}

int train(const Manifest& trained, const Start& start, const Machine& machine,
          HostGathering* gathering, RunDirectory directory, ControlServer& control,
          SignalWatch& signals, ConsoleWriter& console) {
  std::optional<KeptTokens> kept(directory.path() / kOpenTokens);
  // Other hosts see this process's open files as little as its memory.
  const Manifest manifest = gathering ? trained : kept->keep(trained);
  actors::RunSpec spec = to_run_spec(manifest);
  spec.cluster.cores = machine.own_cores();
  spec.cluster.hosts = gathering ? gathering->hosts() : std::vector<actors::Host>();
  const PeakRate peak = peak_rate(spec, manifest->monitor.peak_tflops, machine);
  std::optional<SaveHook> hook;
  RunLog log(
      spec, peak, console,
      [&, kept = ReshapedManifest(start.manifest)](const actors::ClusterShape& shape,
                                                   std::int64_t step, bool ordered) mutable {
        const Manifest changed = with_shape(start.manifest, shape, machine);
        directory.write(kManifestFile, kept.take(changed, step, ordered).to_toml());
      },
      [&](std::int64_t step, const std::string& path) {
        if (hook) hook->saved(step, path);
      });
  if (!manifest->on_save.empty())
    hook.emplace(hook_command(manifest), [&](const std::string& text) { log.on_event(text); });
  ClusterRun run(
      {.manifest = manifest,
       .spec = spec,
       .peak = peak,
       .machine = machine,
       .directory = directory,
       .log = log,
       .control = control,
       .signals = signals,
       .console = console,
       .hosts = gathering ? gathering->door() : nullptr,
       .record_hosts = [&] { record_hosts(*gathering, directory); },
       .predecessor = predecessor_of(start.adopts ? start.lost : std::nullopt, directory)});
  if (gathering) gathering->take_charge();
  const actors::Outcome outcome = run.run(start.step());
  if (run.fallen()) kept->leave();
  if (gathering && run.has_other_launcher()) gathering->abandon();
  kept.reset();  // while the directory is this run's
  const End end{
      .outcome = outcome,
      .checkpoint = log.checkpoint().empty() ? start.point.path.string() : log.checkpoint(),
      .is_new = !start.resumed,
      .stopped = run.stopped(),
      .fallen = run.fallen()};
  const int code = report_end(end, std::move(directory), control, log, console);
  run.show_end(outcome);
  if (hook && run.fallen()) hook->give_up();
  if (hook) wait_for_hook(*hook, signals, console);  // before the log goes, which it tells
  return code;
}

/// Refuses hosts, if they are named, that have no room for the ranks, before anything is started
/// anywhere. Throws Error{unavailable}.
void check_room(const Manifest& manifest, std::span<const actors::Host> named) {
  if (named.empty()) return;
  const auto spares = static_cast<std::size_t>(manifest->recovery.spare_hosts);
  if (named.size() <= spares)
    throw Error(ErrorKind::unavailable,
                fmt::format("recovery.spare_hosts = {} leaves none of {} hosts for ranks", spares,
                            named.size()));
  const actors::RunSpec spec = to_run_spec(manifest);
  actors::place_ranks(spec.mesh, named.first(named.size() - spares), actors::host_rules(spec));
}

/// Lets the run's hosts join; null if there is this one alone.
std::unique_ptr<HostGathering> gather_hosts(HostsPlan plan, const Manifest& manifest,
                                            const Machine& machine, ConsoleWriter& console) {
  if (plan.start == HostsPlan::Start::none) return nullptr;
  const bool takes_over = plan.takeover.has_value();
  if (!takes_over) check_room(manifest, plan.named);
  auto gathering = std::make_unique<HostGathering>(std::move(plan), manifest, machine);
  if (takes_over) return gathering;  // with the hosts that there are, as after any loss
  console.show(gathering->join_line());
  gathering->wait([&console](const std::string& text) { console.show(text); });
  const HostsFound found = look_at_hosts(*gathering, manifest);
  console.show(to_text(found));
  const Preflight judged = judge(found);
  for (const std::string& warning : judged.warnings) console.print_error("warning: " + warning);
  require_fit(judged);
  return gathering;
}

/// Sees to it that the hosts have the run's files; null if there is this one alone.
std::unique_ptr<RunFiles> settle_files(const HostGathering* gathering, const Start& start,
                                       ConsoleWriter& console) {
  if (!gathering) return nullptr;
  auto files = std::make_unique<RunFiles>(gathering->door(), trained_manifest(start));
  files->settle([&console](const std::string& lines) { console.show(lines); });
  return files;
}

/// From now on hosts may join that nobody waits for.
void let_more_join(HostGathering* gathering, RunFiles* files, const RunDirectory& directory) {
  if (!gathering) return;
  files->open(directory.path());
  gathering->invite(directory.path() / kInvitationFile);
}

/// What a process does that shares its command with the one that launches.
int join_launch(const LaunchOptions& options, const Job& job, const Machine& machine,
                SignalWatch& signals) {
  const Manifest manifest = load_manifest(
      options.resume.empty() ? std::filesystem::path(options.manifest)
                             : std::filesystem::path(options.resume) / kManifestFile,
      options.overrides, machine, options.resume.empty() ? Purpose::launch : Purpose::resume);
  const std::filesystem::path run =
      options.resume.empty()
          ? std::filesystem::path(manifest->dir)
          : (std::filesystem::absolute(options.resume) / "").lexically_normal().parent_path();
  return join_of_job(options.hosts, job, manifest, run, signals);
}

/// Whether no step is left, which is told.
bool is_done(const Start& start, ConsoleWriter& console) {
  const std::int64_t max_steps = start.manifest->max_steps;
  if (start.step() < max_steps) return false;
  console.show(
      fmt::format("step {} is done, and run.max_steps = {} asks for no more; go on with --set "
                  "run.max_steps=N, above {}\n",
                  start.step(), max_steps, start.step()));
  return true;
}

/// The placement on the hosts that there are, which may be others than were named. Without room for
/// all ranks, as where a run begins with fewer hosts, it is that on no hosts: the cluster that
/// starts is smaller, which is told.
Placement place_on_hosts_of(const actors::RunSpec& spec, ConsoleWriter& console) try {
  return place(spec);
} catch (const Error& error) {
  if (error.kind() != ErrorKind::unavailable) throw;
  console.show(fmt::format(
      "note      the run begins with the largest cluster that its hosts hold: {}\n", error.what()));
  actors::RunSpec anywhere = spec;
  anywhere.cluster.hosts.clear();
  anywhere.cluster.stage_hosts.clear();
  return place(anywhere);
}

/// How the hosts of the run come together.
HostsPlan plan_hosts(const LaunchOptions& options, const Start& start, const Job& job,
                     ConsoleWriter& console) {
  if (start.lost)
    return plan_takeover(*start.lost, start.directory->term().number, options.overrides.empty(),
                         console);
  return plan_hosts(options.hosts, start.manifest, job);
}

int launch_run(const LaunchOptions& options, SignalWatch& signals, ConsoleWriter& console) {
  ::signal(SIGPIPE, SIG_IGN);  // a closed console must not end the run
  ::signal(SIGXFSZ, SIG_IGN);  // so a file size limit fails the write instead of ending the run
  require_threads(kThreads);
  Machine machine = this_machine();
  const Job job = job_of(own_environment());
  if (!job.is_first) return join_launch(options, job, machine, signals);
  Start start = decide_start(options, machine, job);
  keep_hosts(options.hosts, start.manifest);
  if (start.manifest->monitor.timestamps) console.stamp_lines();
  look_for_gpus(start.manifest, machine);
  require_gpu(start.manifest, machine);
  if (is_done(start, console)) return 0;
  actors::RunSpec spec = to_run_spec(start.manifest, machine);
  tensor::require_openmp_threads(spec.cluster.device.threads);
  Placement placement = place(spec);
  HostsPlan hosts = plan_hosts(options, start, job, console);
  spec.cluster.hosts = hosts.named;
  if (hosts.start == HostsPlan::Start::none)
    check_memory(spec, placement, machine, start.manifest.name());
  require_descriptors(spec.num_ranks() + spec.recovery.spares);
  ControlServer control({.port = spec.cluster.port});
  check_can_bind(monitor_addresses(start.manifest));  // before anything is written or started
  const Corpus corpus = [&] {
    Tokenizing tokenizing(signals);
    return prepare_corpus(start.manifest, tokenizing.options());
  }();
  if (start.goes_on_from) check_cursor(start.manifest, *start.goes_on_from);
  const auto gathering = gather_hosts(std::move(hosts), start.manifest, machine, console);
  const auto files = settle_files(gathering.get(), start, console);
  if (gathering) {
    const auto ports = transport::parse_ports(spec.cluster.ports);
    control.open_to_hosts(gathering->address(), ports.value_or(transport::PortRange{}),
                          gathering->authority());
    spec.cluster.hosts = gathering->hosts();
    start.adopts = gathering->inherits();
    placement = place_on_hosts_of(spec, console);
    check_memory(spec, placement, machine, start.manifest.name());
  }
  if (start.resumed)
    note_changes(start.manifest, Manifest::read(spec.dir + "/" + kManifestFile, {}),
                 start.step() + 1);
  for (const std::string& warning : warnings(spec, placement, machine))
    console.print_error("warning: " + warning);

  // From here on signals wait for train(): once the run has a directory, they end it in order.
  signals.orders({});
  if (!start.directory) start.directory.emplace(RunDirectory::create(spec.dir));
  write_directory(start, machine, spec.cluster.hosts, *start.directory, control, console);
  let_more_join(gathering.get(), files.get(), *start.directory);
  if (gathering) record_hosts(*gathering, *start.directory);
  console.show(summary(spec, placement, *start.manifest->cluster.pin) +
               gpu_lines(machine, order_of_gpus(start.manifest, machine), spec));
  console.show(corpus_lines(spec, corpus));
  console.show(fmt::format("manifest  {}\n", (start.directory->path() / kManifestFile).string()));
  tell_start(start, !options.resume.empty(), console);
  RunDirectory directory = std::move(*start.directory);
  return train(trained_manifest(start), start, machine, gathering.get(), std::move(directory),
               control, signals, console);
}

}  // namespace

int run(const LaunchOptions& options) {
  require_descriptors(0);  // signals and the console take some
  SignalWatch signals;
  ConsoleWriter console;
  const int code = launch_run(options, signals, console);
  console.finish();
  if (code != 0 || !console.has_failed()) return code;
  print_error("the console could not be written; the run itself ended in order, as its files say");
  return static_cast<int>(ErrorKind::data);
}

}  // namespace troupe::launch
