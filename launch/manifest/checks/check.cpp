#include "launch/manifest/checks/check.h"

#include <fmt/format.h>
#include <utf8.h>

#include <algorithm>
#include <iterator>
#include <variant>

#include "actors/topology/layer_split.h"
#include "actors/topology/schedule_kinds.h"
#include "actors/topology/shape_rules.h"
#include "launch/host/suggest.h"
#include "launch/manifest/checks/data_check.h"
#include "launch/manifest/checks/data_parallel_check.h"
#include "launch/manifest/checks/host_names.h"
#include "launch/manifest/checks/http_address.h"
#include "launch/manifest/checks/model_kind.h"
#include "launch/manifest/checks/parameter_groups.h"
#include "launch/manifest/resolve/run_spec.h"
#include "launch/manifest/toml/synonyms.h"
#include "schedules/analysis/validate.h"
#include "schedules/generators/generators.h"
#include "schedules/plan/counted.h"
#include "stages/corpus/token_data.h"

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

/// The first key of [model] that the text names, or else model.hidden_size.
std::string key_named_in(const std::string& text) {
  std::string first = "model.hidden_size";
  std::size_t at = std::string::npos;
  for (const Key& key : manifest_keys()) {
    const std::size_t found = key.table == "model" ? text.find(key.name) : std::string::npos;
    if (found >= at) continue;
    at = found;
    first = fmt::format("model.{}", key.name);
  }
  return first;
}

/// Checks that texts are UTF-8 without a zero byte, because they become paths and parts of a
/// resolved manifest that other programs read.
void check_texts(const Manifest& m) {
  const auto spoiled = [](const std::string& text) {
    return text.find('\0') != std::string::npos || !utf8::is_valid(text);
  };
  for (const Key& key : manifest_keys()) {
    const std::string name = fmt::format("{}.{}", key.table, key.name);
    const auto* text = std::get_if<std::string>(&m.value(name));
    const auto* texts = std::get_if<std::vector<std::string>>(&m.value(name));
    const auto* mix = std::get_if<Mix>(&m.value(name));
    const auto* sets = std::get_if<EvalSets>(&m.value(name));
    const auto* groups = std::get_if<Groups>(&m.value(name));
    const auto is_spoiled = [&](const auto& source) {
      return spoiled(source.name) || std::ranges::any_of(source.files, spoiled);
    };
    if ((text && spoiled(*text)) || (texts && std::ranges::any_of(*texts, spoiled)) ||
        (mix && std::ranges::any_of(*mix, is_spoiled)) ||
        (sets && std::ranges::any_of(*sets, is_spoiled)) ||
        (groups && std::ranges::any_of(*groups, spoiled, &stages::ParameterGroup::match)))
      m.fail(name, fmt::format("{} must be UTF-8 without a zero byte", name));
  }
}

void check_model_fields(const Manifest& m) {
  const std::string wrong = stages::check_model(to_run_spec(m).model);
  if (!wrong.empty()) m.fail(key_named_in(wrong), wrong);
}

/// The nearest valid choice to pp stages of `chunks` chunks, for a message.
std::string nearest_cut(std::int64_t pp, std::int64_t chunks, std::int64_t layers) {
  if (chunks <= layers) return fmt::format("at most pp = {}", layers / chunks);
  if (pp <= layers) return fmt::format("at most chunks = {}", layers / pp);
  return fmt::format("at most pp = {} with one chunk", layers);
}

/// Parses mesh.layout, without a check whether the split fits the model.
actors::LayerSplit layer_split(const Manifest& m) {
  const std::string& layout = m.text("mesh.layout");
  try {
    return actors::parse_split(layout);
  } catch (const Error& error) {
    m.fail("mesh.layout", fmt::format("mesh.layout = {} {}", to_toml(Value(layout)), error.what()));
  }
}

/// Whether layers are split by a rule, which gives each chunk at least one layer.
bool is_split_by_rule(const Manifest& m) {
  return layer_split(m).rule != actors::LayerSplit::Rule::by_hand;
}

void check_shards(const Manifest& m) {
  const actors::RunSpec spec = to_run_spec(m);
  if (const std::string wrong = actors::fault_of_shards(spec, spec.mesh); !wrong.empty())
    m.fail("mesh.tp", fmt::format("mesh.tp = {}: {}", spec.mesh.tp, wrong));
}

void check_mesh(const Manifest& m) {
  check_shards(m);
  const actors::RunSpec spec = to_run_spec(m);
  const std::int64_t pp = m.integer("mesh.pp");
  const std::int64_t chunks = m.integer("schedule.chunks");
  const std::int64_t layers = m.integer("model.num_hidden_layers");
  const std::int64_t most = actors::most_chunks(spec, spec.schedule);
  if (m.text("schedule.kind") == "csv" || pp * chunks <= most || !is_split_by_rule(m)) return;
  m.fail(m.given("mesh.pp") ? "mesh.pp" : "schedule.chunks",
         fmt::format("mesh.pp * schedule.chunks = {} * {} = {} need a layer each, but "
                     "model.num_hidden_layers = {}{}; {}",
                     pp, chunks, schedules::counted(pp * chunks, "chunk"), layers,
                     most > layers ? fmt::format(" in {} copies", most / layers) : "",
                     nearest_cut(pp, chunks, most)));
}

void check_batch(const Manifest& m) {
  const std::int64_t global = m.integer("batch.global");
  const std::int64_t micro = m.integer("batch.micro");
  const std::int64_t dp = m.integer("mesh.dp");
  if (!actors::shares_evenly(to_run_spec(m).batch, dp))
    m.fail(m.given("batch.global") ? "batch.global" : "batch.micro",
           fmt::format("batch.global = {} is not a multiple of batch.micro * mesh.dp = {} * {} = "
                       "{}; nearest: global = {}",
                       global, micro, dp, micro * dp, nearest_multiples(global, micro * dp)));
  const std::int64_t forwards =
      global / micro / dp * m.integer("mesh.pp") * m.integer("schedule.chunks");
  if (forwards > kMaxForwards)
    m.fail("batch.micro",
           fmt::format(
               "a step of {} in {} is more than {} forwards; take a "
               "larger batch.micro",
               schedules::counted(global / micro / dp, "microbatch"),
               schedules::counted(m.integer("mesh.pp") * m.integer("schedule.chunks"), "chunk"),
               kMaxForwards));
  const double widest = static_cast<double>(
      std::max({m.integer("model.hidden_size"), m.integer("model.intermediate_size"),
                m.integer("model.vocab_size")}));
  const double activations = static_cast<double>(micro * m.integer("batch.seq_len")) * widest *
                             static_cast<double>(m.integer("model.num_hidden_layers"));
  if (activations > kMaxActivations)
    m.fail(
        "batch.seq_len",
        fmt::format("batch.micro * batch.seq_len = {} * {} tokens in {} of width {} fit no machine",
                    micro, m.integer("batch.seq_len"),
                    schedules::counted(m.integer("model.num_hidden_layers"), "layer"), widest));
}

/// Checks the mesh of a schedule with two copies of the parameters, which pairs of ranks keep
/// equal.
void check_mirror(const Manifest& m, const schedules::Plan& plan) {
  if (plan.num_copies == 1) return;
  const int ranks = plan.num_ranks(), copy = plan.chunks_per_copy();
  if (ranks % 2 != 0)
    m.fail("schedule.csv", fmt::format("the plan keeps two copies of the parameters, on ranks r "
                                       "and p - 1 - r of an even number p of ranks, but p = {}; "
                                       "nearest: {}",
                                       ranks, ranks + 1));
  for (std::size_t chunk = 0; chunk < static_cast<std::size_t>(copy); ++chunk) {
    const int rank = plan.rank_of_chunk[chunk];
    const int has = plan.rank_of_chunk[chunk + static_cast<std::size_t>(copy)];
    if (has != ranks - 1 - rank)
      m.fail(
          "schedule.csv",
          fmt::format("the plan keeps two copies of the parameters, on ranks r and p - 1 - r, "
                      "but chunk {} is on rank {} of {} and its copy, chunk {}, on rank {} "
                      "instead of {}",
                      chunk, rank, ranks, static_cast<int>(chunk) + copy, has, ranks - 1 - rank));
  }
}

void check_generated(const Manifest& m) {
  const std::string& kind = m.text("schedule.kind");
  const auto kinds = actors::schedule_kinds();
  if (std::ranges::find(kinds, kind) == kinds.end()) {
    if (const auto synonym = value_synonym("schedule", "kind", kind); !synonym.empty())
      m.fail("schedule.kind", synonym);
    m.fail("schedule.kind",
           fmt::format("schedule.kind = {} is unknown; did you mean '{}'? It is one of {}",
                       to_toml(Value(kind)), nearest(kind, kinds), quoted_list(kinds)));
  }
  if (kind == "csv") return;
  if (!m.text("schedule.csv").empty())
    m.fail(
        "schedule.csv",
        fmt::format("schedule.csv is given but schedule.kind = '{}'; set kind = \"csv\" to run it",
                    kind));
  const actors::RunSpec spec = to_run_spec(m);
  const std::string wrong = actors::fault_of_schedule(spec.batch, spec.mesh, spec.schedule);
  if (!wrong.empty())
    m.fail(m.given("schedule.chunks") ? "schedule.chunks" : "schedule.kind", wrong);
}

void check_csv(const Manifest& m) {
  if (m.text("schedule.kind") != "csv") return;
  if (m.text("schedule.csv").empty())
    m.fail("schedule.kind", "schedule.kind = 'csv' needs schedule.csv, the path of a plan");
  const auto parsed = schedules::parse_csv(m.text("schedule.csv"));
  if (const auto* error = std::get_if<schedules::PlanError>(&parsed))
    m.fail("schedule.csv",
           fmt::format("plan line {}, column {}: {}", error->line, error->column, error->message));
  const auto& plan = std::get<schedules::Plan>(parsed);
  const std::int64_t microbatches =
      m.integer("batch.global") / m.integer("mesh.dp") / m.integer("batch.micro");
  if (plan.num_ranks() != m.integer("mesh.pp"))
    m.fail("schedule.csv",
           fmt::format("the plan has {} but mesh.pp = {}",
                       schedules::counted(plan.num_ranks(), "rank"), m.integer("mesh.pp")));
  if (plan.num_microbatches != microbatches)
    m.fail("schedule.csv",
           fmt::format("the plan has {} but batch.global / mesh.dp / batch.micro = {}",
                       schedules::counted(plan.num_microbatches, "microbatch"), microbatches));
  if (plan.chunks_per_copy() > m.integer("model.num_hidden_layers") && is_split_by_rule(m))
    m.fail("schedule.csv", fmt::format("the plan has {} but model.num_hidden_layers = {}",
                                       schedules::counted(plan.chunks_per_copy(), "chunk"),
                                       m.integer("model.num_hidden_layers")));
  for (int rank = 0; rank < plan.num_ranks(); ++rank)
    if (std::ranges::count(plan.rank_of_chunk, rank) == 0)
      m.fail("schedule.csv",
             fmt::format("rank {} of the plan has no chunk; every stage needs one", rank));
  const std::int64_t chunks = (plan.num_chunks() + plan.num_ranks() - 1) / plan.num_ranks();
  if (chunks != m.integer("schedule.chunks"))
    m.fail("schedule.chunks",
           fmt::format("schedule.chunks = {} but the plan has {} a rank",
                       m.integer("schedule.chunks"), schedules::counted(chunks, "chunk")));
  if (const auto broken =
          schedules::validate(schedules::in_order(plan), schedules::Purpose::training))
    m.fail("schedule.csv", fmt::format("plan line {}: {} ({})\n{}", broken->rank + 1,
                                       broken->message, broken->rule, broken->grid));
  check_mirror(m, plan);
}

void check_costs(const Manifest& m) {
  if (m.text("schedule.costs").empty()) return;
  try {
    actors::make_plan(to_run_spec(m));
  } catch (const Error& error) {
    m.fail("schedule.costs", error.what());
  }
}

void check_layout(const Manifest& m) {
  if (m.text("mesh.layout").empty()) return;
  const actors::RunSpec spec = to_run_spec(m);
  const actors::LayerSplit split = layer_split(m);
  try {
    actors::split_layers(split, spec.model, actors::make_plan(spec).chunks_per_copy());
  } catch (const Error& error) {
    m.fail("mesh.layout",
           fmt::format("mesh.layout = {} {}", to_toml(Value(spec.layout)), error.what()));
  }
}

void check_recompute(const Manifest& m) {
  const std::string& mode = m.text("recompute.mode");
  for (const std::string_view name : {"method", "num_layers", "distribute_saved_activations"}) {
    const std::string key = fmt::format("recompute.{}", name);
    const std::string value = to_toml(m.value(key));
    if (mode != "full" && value != find_key("recompute", name)->fallback)
      m.fail(key, fmt::format("{} = {} is a choice of recompute.mode = 'full', but the mode is "
                              "'{}'; leave it out, or take full",
                              key, value, mode));
  }
  if (mode == "none" && m.integer("recompute.kept_microbatches") > 0)
    m.fail("recompute.kept_microbatches",
           "recompute.kept_microbatches says who keeps what others compute again, but "
           "recompute.mode = 'none'; leave it out, or take another mode");
  const std::int64_t layers = m.integer("model.num_hidden_layers");
  if (const std::int64_t num_layers = m.integer("recompute.num_layers"); num_layers > layers)
    m.fail("recompute.num_layers",
           fmt::format("recompute.num_layers = {} but model.num_hidden_layers = {}; at most {}",
                       num_layers, layers, layers));
  if (m.flag("recompute.distribute_saved_activations") && m.flag("mesh.sequence_parallel"))
    m.fail("recompute.distribute_saved_activations",
           "recompute.distribute_saved_activations = true divides inputs that all shards hold, but "
           "with mesh.sequence_parallel = true each shard holds tokens of its own already; leave "
           "one of the two out");
}

void check_optimizer(const Manifest& m) {
  if (m.number("optimizer.min_lr") > m.number("optimizer.lr"))
    m.fail("optimizer.min_lr",
           fmt::format("optimizer.min_lr = {} must be at most optimizer.lr = {}",
                       m.number("optimizer.min_lr"), m.number("optimizer.lr")));
  if (m.text("optimizer.decay") != "constant" && m.integer("optimizer.decay_steps") == 0)
    m.fail("optimizer.decay_steps",
           fmt::format("optimizer.decay = '{}' needs optimizer.decay_steps of at least 1",
                       m.text("optimizer.decay")));
}

void check_checkpoint(const Manifest& m) {
  if (m.flag("checkpoint.weights_only") && m.text("checkpoint.resume").empty())
    m.fail(
        "checkpoint.weights_only",
        "checkpoint.weights_only = true needs checkpoint.resume, the checkpoint to take them from");
}

void check_device(const Manifest& m) {
  if (m.text("cluster.device") == "cuda") return;
  for (const char* key : {"cluster.matmul", "cluster.deterministic"})
    if (to_toml(m.value(key)) != find_key("cluster", std::string_view(key).substr(8))->fallback)
      m.fail(key, fmt::format("{} = {} is a choice of cluster.device = 'cuda', but the device is "
                              "'cpu'; leave it out, or take cuda",
                              key, to_toml(m.value(key))));
}

void check_monitor(const Manifest& m) {
  if (m.integer("monitor.histograms") > 0 && !m.flag("monitor.tensorboard"))
    m.fail("monitor.histograms",
           fmt::format("monitor.histograms = {} are written for TensorBoard, which is off; take "
                       "monitor.tensorboard = true too",
                       m.integer("monitor.histograms")));
  for (const char* key : {"monitor.prometheus", "monitor.web"})
    if (const std::string& address = m.text(key); !address.empty())
      if (const std::string wrong = check_http_address(address); !wrong.empty())
        m.fail(key, fmt::format("{} = {}", key, wrong));
  for (const std::string& host : m.texts("monitor.hosts"))
    if (const std::string wrong = check_host_name(host); !wrong.empty())
      m.fail("monitor.hosts", fmt::format("monitor.hosts: {}", wrong));
}

}  // namespace

void check(const Manifest& manifest, Purpose purpose) {
  check_texts(manifest);
  check_model_kind(manifest);
  check_model_fields(manifest);
  check_mesh(manifest);
  check_batch(manifest);
  check_generated(manifest);
  check_csv(manifest);
  check_costs(manifest);
  check_layout(manifest);
  check_recompute(manifest);
  check_data_parallel(manifest, purpose);
  check_optimizer(manifest);
  check_groups(manifest);
  check_data(manifest);
  check_checkpoint(manifest);
  check_device(manifest);
  check_monitor(manifest);
}

}  // namespace troupe::launch
