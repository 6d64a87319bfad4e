#include "launch/manifest/resolve/run_spec.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <utility>

#include "actors/topology/stage_devices.h"
#include "launch/host/host_list.h"
#include "launch/manifest/resolve/adapter.h"
#include "launch/manifest/resolve/model_source.h"
#include "schedules/plan/counted.h"
#include "stages/files/hugging_face/layer_fields.h"

namespace troupe::launch {

namespace {

/// The width of each stage for which there is a table, as many as stages at most.
std::vector<actors::RunSpec::Width> widths_of(const Settings& settings) {
  std::vector<actors::RunSpec::Width> widths;
  const actors::RunSpec::Mesh& mesh = settings.mesh;
  if (std::ssize(settings.stages) != mesh.pp) return widths;  // check() refuses it
  const auto or_else = [](std::int64_t own, int of_mesh) {
    return own > 0 ? static_cast<int>(own) : of_mesh;
  };
  for (const Settings::Stage& stage : settings.stages)
    widths.push_back({.dp = or_else(stage.dp, mesh.dp), .tp = or_else(stage.tp, mesh.tp)});
  return widths;
}

/// The names of the hosts that a table [[stage]] names, each by its name or by its number among the
/// run's. Numbers stay where the run has none yet, as where a command gives them later.
std::vector<std::string> hosts_of_stage(const Manifest& m, std::size_t stage,
                                        const std::vector<actors::Host>& hosts) {
  std::vector<std::string> own;
  for (const std::string& entry : m->stages[stage].hosts) {
    const bool is_number =
        !entry.empty() && std::ranges::all_of(entry, [](char c) { return c >= '0' && c <= '9'; });
    if (is_number && hosts.empty()) {
      own.push_back(entry);
      continue;
    }
    if (!is_number) {
      const std::string where = fmt::format("{}: hosts of [[stage]] {}", m.where(m->stages), stage);
      for (const actors::Host& host : parse_hosts({&entry, 1}, where, ErrorKind::manifest))
        own.push_back(host.name);
      continue;
    }
    std::size_t number = 0;
    const auto read = std::from_chars(entry.data(), entry.data() + entry.size(), number);
    if (read.ec != std::errc() || number >= hosts.size())
      m.fail(m->stages, "[[stage]] {} has the host number {}, but cluster.hosts names {}, 0 to {}",
             stage, entry, schedules::counted(std::ssize(hosts), "host"), hosts.size() - 1);
    own.push_back(hosts[number].name);
  }
  return own;
}

/// RunSpec::Cluster::stage_hosts.
std::vector<std::vector<std::string>> stage_hosts_of(const Manifest& m,
                                                     const std::vector<actors::Host>& hosts) {
  std::vector<std::vector<std::string>> own;
  for (std::size_t stage = 0; stage < m->stages.size(); ++stage)
    own.push_back(hosts_of_stage(m, stage, hosts));
  if (std::ranges::all_of(own, [](const auto& names) { return names.empty(); })) own.clear();
  return own;
}

/// RunSpec::Cluster::stage_kinds. check() refuses names of no device.
std::vector<tensor::DeviceKind> stage_kinds_of(const Manifest& m) {
  const tensor::DeviceKind of_cluster = m->cluster.device.kind;
  const auto names = m.key_of(m->cluster.device.kind).member.choices;
  std::vector<tensor::DeviceKind> kinds;
  for (const Settings::Stage& stage : m->stages) {
    const auto found = std::ranges::find(names, stage.device);
    kinds.push_back(found == names.end() ? of_cluster
                                         : static_cast<tensor::DeviceKind>(found - names.begin()));
  }
  if (std::ranges::count(kinds, of_cluster) == std::ssize(kinds)) kinds.clear();
  return kinds;
}

}  // namespace

actors::RunSpec to_run_spec(const Manifest& m) {
  actors::RunSpec spec = *m;
  stages::read_layer_text(m->model_config, spec.model);
  spec.model.adapter = adapter_of(*m);
  if (spec.checkpoint.resume.empty()) {
    spec.checkpoint.resume = m->adapter_from.empty() ? m->model_from : m->adapter_from;
    spec.checkpoint.weights_only = true;
  }
  if (spec.data.sources.empty()) spec.data.sources = {m->text};
  if (!m->eval_text.files.empty()) spec.eval.sets.push_back(m->eval_text);
  spec.optimizer.beta1 = m->betas[0];
  spec.optimizer.beta2 = m->betas[1];
  spec.optimizer.max_steps = spec.max_steps;
  if (std::vector<actors::RunSpec::Width> widths = widths_of(*m); !widths.empty())
    spec.mesh.set_widths(std::move(widths));
  if (spec.mesh.tp == 1) spec.mesh.sequence_parallel = false;
  if (spec.mesh.etp == spec.mesh.tp) spec.mesh.etp = 0;
  if (spec.data_parallel.buckets.count > 0) spec.data_parallel.buckets.size = 0;
  spec.data_parallel.every_microbatch = m->reduce_every != Settings::ReduceEvery::step;
  // What the user did not choose follows from the cores that are free when ranks start.
  if (!m.given(m->cluster.pin)) spec.cluster.pin.reset();
  if (!m.given(m->cluster.spin)) spec.cluster.spin.reset();
  if (!m->hosts.empty())
    spec.cluster.hosts =
        parse_hosts(m->hosts, m.where(m->hosts) + ": cluster.hosts", ErrorKind::manifest);
  spec.cluster.stage_hosts = stage_hosts_of(m, spec.cluster.hosts);
  spec.cluster.stage_kinds = stage_kinds_of(m);
  // A clock decides between near-equals differently each time, and so would give another run of the
  // same manifest other bits.
  tensor::DeviceSpec& device = spec.cluster.device;
  if (actors::uses_gpus(spec) && !device.deterministic)
    device.tuning = spec.dir + "/" + kTuningFile;
  return spec;
}

actors::RunSpec parse_resolved(const std::string& text) {
  const Manifest manifest = Manifest::parse(text, "manifest", {});
  const stages::KindTraits& kind = stages::traits_of(manifest->model.kind);
  const auto is_read = [&](const Key& key) {
    const KindKey* some = key.table == "model" ? find_kind_key(key.name) : nullptr;
    return !some || some->is_of(kind);
  };
  for (const Key& key : manifest_keys())
    if (!manifest.has(key) && is_read(key))
      throw Error(ErrorKind::manifest,
                  "manifest: no resolved manifest, " + key.full_name() + " is missing");
  return to_run_spec(manifest);
}

}  // namespace troupe::launch
