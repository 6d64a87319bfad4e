#include "launch/manifest/checks/check.h"

#include <fmt/format.h>
#include <utf8.h>

#include <algorithm>
#include <iterator>
#include <variant>

#include "actors/topology/layers/layer_split.h"
#include "actors/topology/schedule_kinds.h"
#include "actors/topology/shape_rules.h"
#include "actors/topology/stage_devices.h"
#include "launch/host/suggest.h"
#include "launch/manifest/checks/http_address.h"
#include "launch/manifest/checks/parameter_groups.h"
#include "launch/manifest/resolve/run_spec.h"
#include "launch/manifest/toml/synonyms.h"
#include "schedules/analysis/validate.h"
#include "schedules/generators/generators.h"
#include "schedules/plan/counted.h"
#include "stages/corpus/token_data.h"
#include "transport/ucx/network_interface.h"

namespace troupe::launch {
namespace {

/// The largest number of actions in one rank's step: a longer plan is a mistake rather than a
/// schedule.
constexpr std::int64_t kMaxForwards = 1'000'000;
/// The largest number of elements of one microbatch's widest activation, over all layers. It keeps
/// byte counts inside 64 bits.
constexpr double kMaxActivations = 1e15;

/// The multiples of `unit` on both sides of `value`, as "14 or 16"; only the upper one if there is
/// no lower one.
std::string nearest_multiples(std::int64_t value, std::int64_t unit) {
  const std::int64_t low = value / unit * unit;
  return low > 0 ? fmt::format("{} or {}", low, low + unit) : fmt::format("{}", low + unit);
}

/// Whether a value has a text that is not UTF-8 or has a zero byte.
struct IsSpoiled {
  bool operator()(const std::string& text) const {
    return text.find('\0') != std::string::npos || !utf8::is_valid(text);
  }
  bool operator()(const stages::ParameterGroup& group) const { return (*this)(group.match); }
  template <typename T>
  bool operator()(const T& value) const {
    if constexpr (requires { value.files; })  // a table of data.mix or eval.set
      return (*this)(value.name) || (*this)(value.files);
    else if constexpr (requires { value.begin(); })
      return std::ranges::any_of(value, *this);
    return false;
  }
};

/// Texts become paths and parts of a resolved manifest that other programs read.
void check_texts(const Manifest& m) {
  for (const Key& key : manifest_keys())
    if (std::visit(IsSpoiled(), m.value(key)))
      m.fail(key, "{} must be UTF-8 without a zero byte", key.full_name());
}

void check_model_fields(const Manifest& m) {
  const tensor::FieldFault fault = stages::check_model(m->model);
  if (fault.empty()) return;
  const auto keys = manifest_keys();
  const auto key = std::ranges::find_if(
      keys, [&](const Key& own) { return own.member.address(&*m) == fault.field; });
  m.fail(key == keys.end() ? m.key_of(m->model_config) : *key, "{}", fault.sentence);
}

/// The nearest valid choice to pp stages of `chunks` chunks, for a message.
std::string nearest_cut(std::int64_t pp, std::int64_t chunks, std::int64_t layers) {
  if (chunks <= layers) return fmt::format("at most pp = {}", layers / chunks);
  if (pp <= layers) return fmt::format("at most chunks = {}", layers / pp);
  return fmt::format("at most pp = {} with one chunk", layers);
}

/// Parses mesh.layout, without a check whether the split fits the model.
actors::LayerSplit layer_split(const Manifest& m) {
  try {
    return actors::parse_split(m->layout);
  } catch (const Error& error) {
    m.fail(m->layout, "mesh.layout = {} {}", to_toml(Value(m->layout)), error.what());
  }
}

/// Whether layers are split by a rule, which gives each chunk at least one layer.
bool is_split_by_rule(const Manifest& m) {
  return layer_split(m).rule != actors::LayerSplit::Rule::by_hand;
}

void check_stage_tables(const Manifest& m) {
  if (!m->stages.empty() && std::ssize(m->stages) != m->mesh.pp)
    m.fail(m->stages, "mesh.pp = {} but there are {}; give one for each stage", m->mesh.pp,
           schedules::counted(std::ssize(m->stages), "[[stage]] table"));
  const auto names = m.key_of(m->cluster.device.kind).member.choices;
  for (std::size_t stage = 0; stage < m->stages.size(); ++stage) {
    const std::string& own = m->stages[stage].device;
    if (own.empty() || std::ranges::find(names, own) != names.end()) continue;
    if (const auto synonym = value_synonym("cluster", "device", own); !synonym.empty())
      m.fail(m->stages, "[[stage]] {}: {}", stage, synonym);
    m.fail(m->stages, "[[stage]] {} has device = '{}'; did you mean '{}'? It is one of {}", stage,
           own, nearest(own, names), quoted_list(names));
  }
}

/// Hosts that are given with the command are known later (place_ranks()).
void check_stage_hosts(const Manifest& m) {
  const actors::RunSpec::Cluster cluster = to_run_spec(m).cluster;
  if (cluster.hosts.empty()) return;
  std::vector<std::string_view> names;
  for (const actors::Host& host : cluster.hosts) names.push_back(host.name);
  for (std::size_t stage = 0; stage < cluster.stage_hosts.size(); ++stage)
    for (const std::string& host : cluster.stage_hosts[stage])
      if (std::ranges::find(names, host) == names.end())
        m.fail(m->stages,
               "[[stage]] {} has the host '{}', which is none of cluster.hosts; did you mean "
               "'{}'?",
               stage, host, nearest(host, names));
}

void check_shards(const Manifest& m) {
  const actors::RunSpec spec = to_run_spec(m);
  const actors::RunSpec::Mesh& mesh = spec.mesh;
  const auto fault_of = [&](int tp) {
    return actors::fault_of_shards(spec, mesh.sequence_parallel && tp > 1, tp);
  };
  if (mesh.is_even())
    if (const std::string wrong = fault_of(mesh.tp); !wrong.empty())
      m.fail(m->mesh.tp, "mesh.tp = {}: {}", mesh.tp, wrong);
  for (int stage = 0; !mesh.is_even() && stage < mesh.pp; ++stage)
    if (const std::string wrong = fault_of(mesh.width(stage).tp); !wrong.empty())
      m.fail(m->stages, "[[stage]] {} has tp = {}: {}", stage, mesh.width(stage).tp, wrong);
  if (const std::string wrong = actors::fault_of_widths(mesh, spec.schedule); !wrong.empty())
    m.fail(m->stages, "[[stage]]: {}", wrong);
  if (const std::string wrong = actors::fault_of_experts(spec, mesh); !wrong.empty())
    m.fail(wrong.starts_with("etp") ? m->mesh.etp : m->mesh.ep, "mesh.{}", wrong);
}

void check_mesh(const Manifest& m) {
  check_shards(m);
  const int &pp = m->mesh.pp, &chunks = m->schedule.chunks;
  const std::int64_t layers = m->model.num_hidden_layers;
  const std::int64_t most = actors::most_chunks(*m, m->schedule);
  if (m->schedule.kind == "csv" || pp * chunks <= most || !is_split_by_rule(m)) return;
  m.fail(m.given(pp) ? pp : chunks,
         "mesh.pp * schedule.chunks = {} * {} = {} need a layer each, but model.num_hidden_layers "
         "= {}{}; {}",
         pp, chunks, schedules::counted(pp * chunks, "chunk"), layers,
         most > layers ? fmt::format(" in {} copies", most / layers) : "",
         nearest_cut(pp, chunks, most));
}

void check_batch(const Manifest& m) {
  const auto& [seq_len, micro, global, documents] = m->batch;
  const stages::ModelConfig& model = m->model;
  const actors::RunSpec::Mesh mesh = to_run_spec(m).mesh;
  const int dp = mesh.dp;
  if (!actors::shares_evenly(m->batch, dp))
    m.fail(m.given(global) ? global : micro,
           "batch.global = {} is not a multiple of batch.micro * {} = {} * {} = {}; nearest: "
           "global = {}",
           global, mesh.is_even() ? "mesh.dp" : "the most dp of a [[stage]]", micro, dp, micro * dp,
           nearest_multiples(global, micro * dp));
  const int chunks = m->mesh.pp * m->schedule.chunks;
  const std::int64_t microbatches = global / micro / dp;
  if (microbatches * chunks > kMaxForwards)
    m.fail(micro, "a step of {} in {} is more than {} forwards; take a larger batch.micro",
           schedules::counted(microbatches, "microbatch"), schedules::counted(chunks, "chunk"),
           kMaxForwards);
  const double widest =
      static_cast<double>(std::max({model.hidden_size, model.intermediate_size, model.vocab_size}));
  const double activations =
      static_cast<double>(micro * seq_len) * widest * static_cast<double>(model.num_hidden_layers);
  if (activations > kMaxActivations)
    m.fail(seq_len, "batch.micro * batch.seq_len = {} * {} tokens in {} of width {} fit no machine",
           micro, seq_len, schedules::counted(model.num_hidden_layers, "layer"), widest);
}

/// Checks the mesh of a schedule with two copies of the parameters, which pairs of ranks keep
/// equal.
void check_mirror(const Manifest& m, const schedules::Plan& plan) {
  if (plan.num_copies == 1) return;
  if (const std::string wrong = actors::fault_of_mirrors(to_run_spec(m).mesh); !wrong.empty())
    m.fail(m->stages, "[[stage]]: {}", wrong);
  const int ranks = plan.num_ranks(), copy = plan.chunks_per_copy();
  if (ranks % 2 != 0)
    m.fail(m->schedule.csv,
           "the plan keeps two copies of the parameters, on ranks r and p - 1 - r of an even "
           "number p of ranks, but p = {}; nearest: {}",
           ranks, ranks + 1);
  for (std::size_t chunk = 0; chunk < static_cast<std::size_t>(copy); ++chunk) {
    const int rank = plan.rank_of_chunk[chunk];
    const int has = plan.rank_of_chunk[chunk + static_cast<std::size_t>(copy)];
    if (has != ranks - 1 - rank)
      m.fail(m->schedule.csv,
             "the plan keeps two copies of the parameters, on ranks r and p - 1 - r, "
             "but chunk {} is on rank {} of {} and its copy, chunk {}, on rank {} instead of {}",
             chunk, rank, ranks, static_cast<int>(chunk) + copy, has, ranks - 1 - rank);
  }
}

void check_generated(const Manifest& m) {
  const auto& [kind, own_chunks, csv, costs] = m->schedule;
  const auto kinds = actors::schedule_kinds();
  if (std::ranges::find(kinds, kind) == kinds.end()) {
    if (const auto synonym = value_synonym("schedule", "kind", kind); !synonym.empty())
      m.fail(kind, "{}", synonym);
    m.fail(kind, "schedule.kind = {} is unknown; did you mean '{}'? It is one of {}",
           to_toml(Value(kind)), nearest(kind, kinds), quoted_list(kinds));
  }
  if (kind == "csv") return;
  if (!csv.empty())
    m.fail(csv, "schedule.csv is given but schedule.kind = '{}'; set kind = \"csv\" to run it",
           kind);
  const std::string wrong = actors::fault_of_schedule(m->batch, to_run_spec(m).mesh, m->schedule);
  if (!wrong.empty())
    m.fail(m.given(own_chunks) ? m.key_of(own_chunks) : m.key_of(kind), "{}", wrong);
}

void check_csv(const Manifest& m) {
  const auto& [kind, own_chunks, csv, costs] = m->schedule;
  if (kind != "csv") return;
  if (csv.empty()) m.fail(kind, "schedule.kind = 'csv' needs schedule.csv, the path of a plan");
  const auto parsed = schedules::parse_csv(csv);
  if (const auto* error = std::get_if<schedules::PlanError>(&parsed))
    m.fail(csv, "plan line {}, column {}: {}", error->line, error->column, error->message);
  const auto& plan = std::get<schedules::Plan>(parsed);
  const int microbatches = to_run_spec(m).num_microbatches();
  if (plan.num_ranks() != m->mesh.pp)
    m.fail(csv, "the plan has {} but mesh.pp = {}", schedules::counted(plan.num_ranks(), "rank"),
           m->mesh.pp);
  if (plan.num_microbatches != microbatches)
    m.fail(csv, "the plan has {} but batch.global / mesh.dp / batch.micro = {}",
           schedules::counted(plan.num_microbatches, "microbatch"), microbatches);
  if (plan.chunks_per_copy() > m->model.num_hidden_layers && is_split_by_rule(m))
    m.fail(csv, "the plan has {} but model.num_hidden_layers = {}",
           schedules::counted(plan.chunks_per_copy(), "chunk"), m->model.num_hidden_layers);
  for (int rank = 0; rank < plan.num_ranks(); ++rank)
    if (std::ranges::count(plan.rank_of_chunk, rank) == 0)
      m.fail(csv, "rank {} of the plan has no chunk; every stage needs one", rank);
  const int chunks = (plan.num_chunks() + plan.num_ranks() - 1) / plan.num_ranks();
  if (chunks != own_chunks)
    m.fail(own_chunks, "schedule.chunks = {} but the plan has {} a rank", own_chunks,
           schedules::counted(chunks, "chunk"));
  if (const auto broken =
          schedules::validate(schedules::in_order(plan), schedules::Purpose::training))
    m.fail(csv, "plan line {}: {} ({})\n{}", broken->rank + 1, broken->message, broken->rule,
           broken->grid);
  check_mirror(m, plan);
}

void check_costs(const Manifest& m) {
  if (m->schedule.costs.empty()) return;
  try {
    actors::make_plan(to_run_spec(m));
  } catch (const Error& error) {
    m.fail(m->schedule.costs, "{}", error.what());
  }
}

void check_layout(const Manifest& m) {
  if (m->layout.empty()) return;
  const actors::LayerSplit split = layer_split(m);
  try {
    actors::split_layers(split, m->model, actors::make_plan(to_run_spec(m)).chunks_per_copy());
  } catch (const Error& error) {
    m.fail(m->layout, "mesh.layout = {} {}", to_toml(Value(m->layout)), error.what());
  }
}

void check_recompute(const Manifest& m) {
  using Mode = stages::Recompute::Mode;
  const auto& [mode, method, num_layers, distributes, kept_microbatches] = m->recompute;
  if (mode != Mode::full)
    refuse_choices(m, {&m.key_of(method), &m.key_of(num_layers), &m.key_of(distributes)},
                   fmt::format("is a choice of recompute.mode = 'full', but the mode is '{}'; "
                               "leave it out, or take full",
                               m.text(mode)));
  if (mode == Mode::none && kept_microbatches > 0)
    m.fail(kept_microbatches,
           "recompute.kept_microbatches says who keeps what others compute again, but "
           "recompute.mode = 'none'; leave it out, or take another mode");
  if (const std::int64_t layers = m->model.num_hidden_layers; num_layers > layers)
    m.fail(num_layers, "recompute.num_layers = {} but model.num_hidden_layers = {}; at most {}",
           num_layers, layers, layers);
  if (distributes && m->mesh.sequence_parallel)
    m.fail(distributes,
           "recompute.distribute_saved_activations = true divides inputs that all shards hold, but "
           "with mesh.sequence_parallel = true each shard holds tokens of its own already; leave "
           "one of the two out");
}

void check_optimizer(const Manifest& m) {
  const stages::OptimizerConfig& optimizer = m->optimizer;
  if (optimizer.min_lr > optimizer.lr)
    m.fail(optimizer.min_lr, "optimizer.min_lr = {} must be at most optimizer.lr = {}",
           optimizer.min_lr, optimizer.lr);
  if (optimizer.decay != stages::Decay::constant && optimizer.decay_steps == 0)
    m.fail(optimizer.decay_steps,
           "optimizer.decay = '{}' needs optimizer.decay_steps of at least 1",
           m.text(optimizer.decay));
}

void check_checkpoint(const Manifest& m) {
  if (m->checkpoint.weights_only && m->checkpoint.resume.empty())
    m.fail(
        m->checkpoint.weights_only,
        "checkpoint.weights_only = true needs checkpoint.resume, the checkpoint to take them from");
}

void check_device(const Manifest& m) {
  const tensor::DeviceSpec& device = m->cluster.device;
  if (!actors::uses_gpus(to_run_spec(m)))
    refuse_choices(
        m,
        {&m.key_of(device.tf32), &m.key_of(device.deterministic), &m.key_of(m->cluster.collectives),
         &m.key_of(m->cluster.edges), &m.key_of(m->cluster.gpus)},
        "is a choice of cluster.device = 'cuda', but the device is 'cpu'; leave it out, "
        "or take cuda");
}

void check_ports(const Manifest& m) {
  const std::string& ports = m->cluster.ports;
  if (!ports.empty() && !transport::parse_ports(ports))
    m.fail(ports,
           "cluster.ports = \"{}\" is no range of ports; write the first and the last, from 1 to "
           "65535, as \"29600-29700\"",
           ports);
}

void check_monitor(const Manifest& m) {
  const auto& monitor = m->monitor;
  if (m->histogram_interval > 0 && !monitor.tensorboard)
    m.fail(m->histogram_interval,
           "monitor.histograms = {} are written for TensorBoard, which is off; take "
           "monitor.tensorboard = true too",
           m->histogram_interval);
  for (const std::string* address : {&monitor.prometheus, &monitor.web})
    if (!address->empty())
      if (const std::string wrong = check_http_address(*address); !wrong.empty())
        m.fail(*address, "{} = {}", m.key_of(*address).full_name(), wrong);
  for (const std::string& host : monitor.hosts)
    if (const std::string wrong = check_host_name(host); !wrong.empty())
      m.fail(monitor.hosts, "monitor.hosts: {}", wrong);
}

}  // namespace

void refuse_choices(const Manifest& m, const std::vector<const Key*>& keys,
                    const std::string& why) {
  for (const Key* key : keys)
    if (!m.is_default(*key))
      m.fail(*key, "{} = {} {}", key->full_name(), to_toml(m.value(*key)), why);
}

void check(const Manifest& manifest, Purpose purpose) {
  check_texts(manifest);
  check_model_kind(manifest);
  check_adapter(manifest);
  check_model_fields(manifest);
  check_auto_mesh(manifest);
  check_stage_tables(manifest);
  check_stage_hosts(manifest);
  check_mesh(manifest);
  // What mesh.auto looks for is checked with the layout that is found.
  if (!manifest->auto_mesh) check_batch(manifest);
  check_generated(manifest);
  check_csv(manifest);
  check_costs(manifest);
  check_layout(manifest);
  check_recompute(manifest);
  if (!manifest->auto_mesh) check_data_parallel(manifest, purpose);
  check_optimizer(manifest);
  check_groups(manifest);
  check_data(manifest);
  check_checkpoint(manifest);
  check_device(manifest);
  check_ports(manifest);
  check_monitor(manifest);
}

}  // namespace troupe::launch
