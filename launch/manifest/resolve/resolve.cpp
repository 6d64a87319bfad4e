#include "launch/manifest/resolve/resolve.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <utility>
#include <variant>

#include "actors/topology/layers/layer_split.h"
#include "launch/manifest/resolve/adapter.h"
#include "launch/manifest/resolve/model_source.h"
#include "launch/manifest/resolve/run_spec.h"
#include "schedules/analysis/validate.h"
#include "schedules/generators/generators.h"
#include "stages/corpus/chat/chat_date.h"
#include "stages/corpus/chat/chat_template.h"
#include "stages/files/hugging_face/layer_fields.h"
#include "stages/storage/input_file.h"

namespace troupe::launch {
namespace {

void resolve_run(Manifest& m) {
  const Key& key = m.key_of(m->dir);
  // The name counts as given from now on, because the resolved manifest is a file of another name.
  if (!m.given(m->name))
    m.settle(m.key_of(m->name), std::filesystem::path(m.name()).stem().string());
  if (m->name.empty() || m->name.find('/') != std::string::npos)
    m.fail(m->name, "run.name = {} must be a name without '/'", to_toml(Value(m->name)));
  const std::string dir = m.given(key) ? m->dir : "runs/" + m->name;
  if (dir.empty()) m.fail(key, "run.dir is empty; it must name a directory to make");
  // Appends a slash and takes the parent, which removes a trailing slash if there was one.
  m.resolve(m->dir, (std::filesystem::absolute(m.with_home(key, dir)) / "")
                        .lexically_normal()
                        .parent_path()
                        .string());
}

/// Gives keys of the rotary embedding that were left out their values.
void resolve_rotary(Manifest& m) {
  const tensor::Rotary fallback;
  tensor::Rotary& rotary = m->model.rotary;
  m.derive(rotary.type, fallback.type);
  m.derive(rotary.theta, fallback.theta);
  for (const auto& [name, member] : tensor::kRotaryNumbers)
    m.derive(rotary.*member, fallback.*member);
  m.derive(rotary.original_max_position_embeddings, m->model.max_position_embeddings);
  m.derive(rotary.truncate, fallback.truncate);
}

/// Sets the members of the model that model.config holds, and says all of them there.
void resolve_layers(Manifest& m) {
  std::string& text = m->model_config;
  try {
    stages::read_layer_text(text, m->model);
  } catch (const Error& error) {
    m.fail(text, "{}", error.what());
  }
  text = stages::layer_text_of(m->model);
}

/// Models without experts have no value for these keys, which a resolved manifest then leaves out.
void resolve_experts(Manifest& m) {
  stages::Experts& experts = m->model.experts;
  if (!stages::traits_of(m->model.kind).has_experts) return;
  m.derive(experts.count, 8);
  m.derive(experts.per_token, 2);
  m.derive(experts.width, m->model.intermediate_size);
  m.derive(experts.normalizes, true);
  if (m->model_from.empty()) m.derive(experts.aux_loss_coef, 0);
}

void resolve_model(Manifest& m) {
  stages::ModelConfig& model = m->model;
  const std::int64_t heads = model.num_attention_heads, hidden = model.hidden_size;
  m.derive(model.num_key_value_heads, heads);
  // Keys of the other kind have values too, which nobody reads: a resolved manifest has every key.
  m.derive(model.rms_norm_eps, 1e-5);
  m.derive(model.layer_norm_epsilon, 1e-5);
  m.derive(model.max_position_embeddings, m->batch.seq_len);
  m.derive(model.attention_bias, false);
  m.derive(model.mlp_bias, false);
  resolve_rotary(m);
  resolve_experts(m);
  m.derive(model.tie_word_embeddings, stages::traits_of(model.kind).ties_embeddings);
  if (m.given(model.head_dim)) return resolve_layers(m);
  if (hidden % heads != 0) {
    const std::int64_t low = std::max<std::int64_t>(hidden / heads, 1);
    m.fail(model.num_attention_heads,
           "model.hidden_size = {0} is not a multiple of model.num_attention_heads = {1}, and "
           "model.head_dim is not given; nearest hidden_size: {2} or {3}",
           hidden, heads, low * heads, (low + 1) * heads);
  }
  m.resolve(model.head_dim, hidden / heads);
  resolve_layers(m);
}

/// The steps of the decay: those after the warm-up, or the last tenth.
std::int64_t decay_steps(const Manifest& m) {
  const stages::Decay& decay = m->optimizer.decay;
  const std::int64_t& warmup = m->optimizer.warmup_steps;
  if (decay == stages::Decay::constant) return 0;
  if (decay == stages::Decay::wsd) return std::max<std::int64_t>(m->max_steps / 10, 1);
  if (warmup >= m->max_steps)
    m.fail(warmup,
           "optimizer.warmup_steps = {} leaves no step of run.max_steps = {} for the {} decay; at "
           "most {}",
           warmup, m->max_steps, m.text(decay), m->max_steps - 1);
  return m->max_steps - warmup;
}

/// Makes the files that a member of the manifest names absolute paths.
void resolve_files(const Manifest& m, const Key& key, std::vector<std::string>& files) {
  for (std::string& file : files) {
    if (file.empty()) m.fail(key, "{} holds an empty name; name files to read", key.full_name());
    file = m.absolute(key, file);
  }
}

/// Gives every table of a list its name, and absolute paths. What launch writes into it becomes
/// known when the text is tokenized.
template <typename Row>
void resolve_rows(const Manifest& m, std::vector<Row>& rows) {
  for (Row& row : rows) {
    if (row.name.empty() && !row.files.empty()) row.name = row.files.front();
    resolve_files(m, m.key_of(rows), row.files);
    row.tokens = row.digest = "";
    if constexpr (requires { row.samples; }) row.samples = 0;
  }
}

/// The text of a plan file. A syntax error or a broken rule is reported with the file's line.
std::string read_plan(const Manifest& m, const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file || std::filesystem::is_directory(path))
    m.fail_as(ErrorKind::data, m->schedule.csv, "{}: {}", path,
              stages::why_unreadable(path, "no such plan file"));
  std::string text{std::istreambuf_iterator<char>(file), {}};
  if (!text.ends_with('\n')) text += '\n';
  const auto parsed = schedules::parse_csv(text);
  if (const auto* error = std::get_if<schedules::PlanError>(&parsed))
    throw Error(ErrorKind::manifest,
                fmt::format("{}:{}:{}: {}", path, error->line, error->column, error->message));
  if (const auto broken = schedules::validate(
          schedules::in_order(std::get<schedules::Plan>(parsed)), schedules::Purpose::training))
    throw Error(ErrorKind::manifest, fmt::format("{}:{}: {} ({})\n{}", path, broken->rank + 1,
                                                 broken->message, broken->rule, broken->grid));
  return text;
}

/// Replaces the path in schedule.csv by the text of the plan file.
void resolve_plan_file(Manifest& m) {
  std::string& csv = m->schedule.csv;
  if (m->schedule.kind == "csv" && !csv.empty() && csv.find('\n') == std::string::npos)
    csv = read_plan(m, m.absolute(m.key_of(csv), csv));
}

/// The chunks of a stage that the schedule's kind has, or its plan file.
int chunks_of_schedule(const Manifest& m) {
  const auto& [kind, own, csv, costs] = m->schedule;
  if (kind != "csv") {
    const schedules::Generator* generator = schedules::find_generator(kind);
    return generator ? generator->chunks : 1;
  }
  const auto parsed = schedules::parse_csv(csv);
  const auto* plan = std::get_if<schedules::Plan>(&parsed);
  if (!plan || plan->num_ranks() == 0) return 1;
  return std::max(1, (plan->num_chunks() + plan->num_ranks() - 1) / plan->num_ranks());
}

/// Replaces the layers of [[stage]] tables by mesh.layout, which says the same.
void resolve_stage_layers(Manifest& m) {
  const auto has_layers = [](const Settings::Stage& stage) { return stage.layers > 0; };
  const auto all = std::ranges::count_if(m->stages, has_layers);
  if (all == 0) return;
  if (all != std::ssize(m->stages))
    m.fail(m->stages, "{} of {} [[stage]] tables have layers; give all or none", all,
           m->stages.size());
  if (!m->layout.empty())
    m.fail(m->layout, "mesh.layout and the layers of [[stage]] are both given; take one of them");
  if (chunks_of_schedule(m) != 1 || (m.given(m->schedule.chunks) && m->schedule.chunks != 1))
    m.fail(m->stages,
           "the layers of a [[stage]] are those of one chunk, but its stages have several; say in "
           "mesh.layout how many layers each chunk has");
  std::vector<std::int64_t> layers;
  for (Settings::Stage& stage : m->stages) layers.push_back(std::exchange(stage.layers, 0));
  m.settle(m.key_of(m->layout), fmt::format("{}", fmt::join(layers, ",")));
}

/// Derives what follows from mesh and schedule.
void resolve_shape(Manifest& m, const Machine& machine) {
  m.derive(m->schedule.chunks, chunks_of_schedule(m));
  const actors::CoreUse use = actors::core_use({.device = {.threads = m->cluster.device.threads},
                                                .pin = std::nullopt,
                                                .spin = std::nullopt,
                                                .cores = machine.own_cores()},
                                               to_run_spec(m).num_ranks());
  m.derive(m->cluster.pin, use.pin);
  m.derive(m->cluster.spin, use.spin);
}

void resolve_paths(Manifest& m) {
  std::string& tokenizer = m->data.tokenizer;
  if (tokenizer.empty())
    m.fail(
        tokenizer,
        "data.tokenizer is empty; it must be 'bytes', a SentencePiece .model, a tokenizer.json, a "
        "tekken.json, a file of tiktoken or a vocab.json");
  if (tokenizer != "bytes") tokenizer = m.absolute(m.key_of(tokenizer), tokenizer);
  if (std::string& resume = m->checkpoint.resume; !resume.empty())
    resume = m.absolute(m.key_of(resume), resume);
  resolve_files(m, m.key_of(m->text.files), m->text.files);
  resolve_files(m, m.key_of(m->eval_text.files), m->eval_text.files);
  resolve_rows(m, m->data.sources);
  resolve_rows(m, m->eval.sets);
  // These become known when the text is tokenized.
  for (std::string* unknown :
       {&m->text.tokens, &m->data.digest, &m->eval_text.tokens, &m->eval_text.digest})
    m.resolve(*unknown, "");
  m.resolve(m->eval_text.samples, 0);
}

/// A template that asks for the day is told that of the first start, so that the run repeats.
void resolve_date(Manifest& m) {
  const std::string& date = m->data.rules.date;
  if (date.empty() && m.about(m->data.tokenizer,
                              [&] { return stages::chat_template_reads_date(m->data.tokenizer); }))
    m.settle(m.key_of(date), stages::today());
}

/// The text of mesh.layout for a shape: the current text if it still describes the shape's layout.
std::string layout_text(const actors::RunSpec& spec, const actors::ClusterShape& shape) {
  const std::vector<int> layers = actors::layers_of(shape.layout);
  for (const std::string& text : {spec.layout, std::string()}) {
    const actors::LayerSplit split = actors::parse_split(text);
    if (split.layers == layers) return text;
    if (!split.layers.empty() || std::ssize(layers) > spec.model.num_hidden_layers) continue;
    if (actors::split_layers(split, spec.model, static_cast<int>(layers.size())) == layers)
      return text;
  }
  return fmt::format("{}", fmt::join(layers, ","));
}

/// Says the mesh of a shape: stages that differ in width have tables.
void set_mesh(Manifest& manifest, const actors::RunSpec::Mesh& mesh) {
  manifest->mesh.pp = mesh.pp;
  Stages stages;
  for (const auto& [dp, tp] : mesh.widths) stages.push_back({.dp = dp, .tp = tp});
  // Hosts and devices of their own say nothing of another number of stages.
  for (std::size_t stage = 0;
       std::ssize(manifest->stages) == mesh.pp && stage < manifest->stages.size(); ++stage)
    if (const auto& own = manifest->stages[stage]; !own.hosts.empty() || !own.device.empty()) {
      stages.resize(manifest->stages.size());
      stages[stage].hosts = own.hosts;
      stages[stage].device = own.device;
    }
  if (mesh.is_even()) {
    manifest->mesh.dp = mesh.dp;
    manifest->mesh.tp = mesh.tp;
    manifest->mesh.ep = mesh.ep;
    manifest->mesh.etp = mesh.etp;
  }
  if (stages != manifest->stages)
    manifest.settle(manifest.key_of(manifest->stages), std::move(stages));
}

}  // namespace

void resolve(Manifest& manifest, const Machine& machine) {
  resolve_run(manifest);
  resolve_source(manifest);
  resolve_model(manifest);
  resolve_adapter(manifest);
  if (!manifest.given(manifest->optimizer.decay_steps))
    manifest.resolve(manifest->optimizer.decay_steps, decay_steps(manifest));
  resolve_plan_file(manifest);
  resolve_stage_layers(manifest);
  resolve_shape(manifest, machine);
  resolve_paths(manifest);
  resolve_date(manifest);
}

Manifest with_shape(Manifest manifest, const actors::ClusterShape& shape, const Machine& machine) {
  const auto& [kind, chunks, csv, costs] = shape.schedule;
  set_mesh(manifest, shape.mesh);
  manifest->layout = layout_text(*manifest, shape);
  manifest->schedule.kind = kind;
  manifest->schedule.csv = csv;
  manifest->schedule.costs = costs;
  resolve_shape(manifest, machine);
  // A change of shape may keep a number of chunks that is not the schedule's default.
  if (int& own = manifest->schedule.chunks; own != chunks) {
    manifest.given(own) ? manifest.resolve(own, chunks)
                        : manifest.settle(manifest.key_of(own), std::int64_t{chunks});
  }
  return manifest;
}

}  // namespace troupe::launch
