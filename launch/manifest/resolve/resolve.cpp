#include "launch/manifest/resolve/resolve.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <variant>

#include "actors/topology/run_spec.h"
#include "launch/manifest/resolve/model_source.h"
#include "launch/manifest/resolve/rotary.h"
#include "schedules/analysis/validate.h"
#include "schedules/generators/generators.h"
#include "stages/storage/input_file.h"

namespace troupe::launch {
namespace {

void resolve_run(Manifest& m) {
  // The name counts as given from now on, because the resolved manifest is a file of another name.
  if (!m.given("run.name")) m.settle("run.name", std::filesystem::path(m.name()).stem().string());
  const std::string& name = m.text("run.name");
  if (name.empty() || name.find('/') != std::string::npos)
    m.fail("run.name",
           fmt::format("run.name = {} must be a name without '/'", to_toml(Value(name))));
  const std::string dir = m.given("run.dir") ? m.text("run.dir") : "runs/" + name;
  if (dir.empty()) m.fail("run.dir", "run.dir is empty; it must name a directory to make");
  // Appends a slash and takes the parent, which removes a trailing slash if there was one.
  m.resolve("run.dir", (std::filesystem::absolute(m.with_home("run.dir", dir)) / "")
                           .lexically_normal()
                           .parent_path()
                           .string());
}

void resolve_model(Manifest& m) {
  const std::int64_t heads = m.integer("model.num_attention_heads");
  const std::int64_t hidden = m.integer("model.hidden_size");
  m.derive("model.num_key_value_heads", heads);
  // Keys of the other kind have values too, which nobody reads: a resolved manifest has every key.
  m.derive("model.rms_norm_eps", 1e-5);
  m.derive("model.layer_norm_epsilon", 1e-5);
  m.derive("model.max_position_embeddings", m.integer("batch.seq_len"));
  m.derive("model.attention_bias", false);
  m.derive("model.mlp_bias", false);
  resolve_rotary(m);
  m.derive("model.tie_word_embeddings", m.text("model.kind") == "gpt2");
  if (m.given("model.head_dim")) return;
  if (hidden % heads != 0) {
    const std::int64_t low = std::max<std::int64_t>(hidden / heads, 1);
    m.fail("model.num_attention_heads",
           fmt::format(
               "model.hidden_size = {0} is not a multiple of model.num_attention_heads = {1}, and "
               "model.head_dim is not given; nearest hidden_size: {2} or {3}",
               hidden, heads, low * heads, (low + 1) * heads));
  }
  m.resolve("model.head_dim", hidden / heads);
}

/// The steps of the decay: those after the warm-up, or the last tenth.
std::int64_t decay_steps(const Manifest& m) {
  const std::string& decay = m.text("optimizer.decay");
  const std::int64_t max_steps = m.integer("run.max_steps");
  const std::int64_t warmup = m.integer("optimizer.warmup_steps");
  if (decay == "constant") return 0;
  if (decay == "wsd") return std::max<std::int64_t>(max_steps / 10, 1);
  if (warmup >= max_steps)
    m.fail("optimizer.warmup_steps",
           fmt::format("optimizer.warmup_steps = {} leaves no step of run.max_steps = {} for the "
                       "{} decay; at most {}",
                       warmup, max_steps, decay, max_steps - 1));
  return max_steps - warmup;
}

/// The names of files as absolute paths.
std::vector<std::string> resolved_files(const Manifest& m, const char* key,
                                        std::vector<std::string> files) {
  for (std::string& file : files) {
    if (file.empty()) m.fail(key, fmt::format("{} holds an empty name; name files to read", key));
    file = m.absolute(key, file);
  }
  return files;
}

/// Gives every source its name, and absolute paths.
void resolve_mix(Manifest& m) {
  Mix mix = m.mix();
  for (MixSource& source : mix) {
    if (source.name.empty() && !source.files.empty()) source.name = source.files.front();
    source.files = resolved_files(m, "data.mix", source.files);
    source.tokens = source.digest = "";  // known when the text is tokenized
  }
  m.resolve("data.mix", mix);
}

/// Gives every evaluation set its name, and absolute paths.
void resolve_eval_sets(Manifest& m) {
  EvalSets sets = m.eval_sets();
  for (EvalSet& set : sets) {
    if (set.name.empty() && !set.files.empty()) set.name = set.files.front();
    set = {.name = set.name, .files = resolved_files(m, "eval.set", set.files)};
  }
  m.resolve("eval.set", sets);
}

/// The text of a plan file. A syntax error or a broken rule is reported with the file's line.
std::string read_plan(const Manifest& m, const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file || std::filesystem::is_directory(path))
    m.fail("schedule.csv",
           fmt::format("{}: {}", path, stages::why_unreadable(path, "no such plan file")),
           ErrorKind::data);
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
  const std::string csv = m.text("schedule.csv");
  if (m.text("schedule.kind") == "csv" && !csv.empty() && csv.find('\n') == std::string::npos)
    m.resolve("schedule.csv", read_plan(m, m.absolute("schedule.csv", csv)));
}

/// The chunks of a stage that the schedule's kind has, or its plan file.
std::int64_t chunks_of_schedule(const Manifest& m) {
  const std::string& kind = m.text("schedule.kind");
  if (kind != "csv") {
    const schedules::Generator* generator = schedules::find_generator(kind);
    return generator ? generator->chunks : 1;
  }
  const auto parsed = schedules::parse_csv(m.text("schedule.csv"));
  const auto* plan = std::get_if<schedules::Plan>(&parsed);
  if (!plan || plan->num_ranks() == 0) return 1;
  return std::max(1, (plan->num_chunks() + plan->num_ranks() - 1) / plan->num_ranks());
}

void resolve_cluster(Manifest& m, const Machine& machine) {
  const actors::CoreUse use =
      actors::core_use({.device = {.threads = static_cast<int>(m.integer("cluster.threads"))},
                        .pin = std::nullopt,
                        .spin = std::nullopt,
                        .cores = machine.own_cores()},
                       m.integer("mesh.pp") * m.integer("mesh.dp") * m.integer("mesh.tp"));
  m.derive("cluster.pin", use.pin);
  m.derive("cluster.spin", use.spin);
}

void resolve_paths(Manifest& m) {
  if (m.text("data.tokenizer").empty())
    m.fail(
        "data.tokenizer",
        "data.tokenizer is empty; it must be 'bytes', a SentencePiece .model or a tokenizer.json");
  if (m.text("data.tokenizer") != "bytes")
    m.resolve("data.tokenizer", m.absolute("data.tokenizer", m.text("data.tokenizer")));
  if (!m.text("checkpoint.resume").empty())
    m.resolve("checkpoint.resume", m.absolute("checkpoint.resume", m.text("checkpoint.resume")));
  for (const auto* key : {"data.files", "eval.files"})
    m.resolve(key, resolved_files(m, key, m.texts(key)));
  resolve_mix(m);
  resolve_eval_sets(m);
  // These become known when the text is tokenized.
  for (const auto* key : {"data.tokens", "data.digest", "eval.tokens", "eval.digest"})
    m.resolve(key, std::string());
  m.resolve("eval.samples", std::int64_t{0});
}

}  // namespace

void resolve(Manifest& manifest, const Machine& machine) {
  resolve_run(manifest);
  resolve_source(manifest);
  resolve_model(manifest);
  if (!manifest.given("optimizer.decay_steps"))
    manifest.resolve("optimizer.decay_steps", decay_steps(manifest));
  resolve_plan_file(manifest);
  resolve_shape(manifest, machine);
  resolve_paths(manifest);
}

void resolve_shape(Manifest& manifest, const Machine& machine) {
  manifest.derive("schedule.chunks", chunks_of_schedule(manifest));
  resolve_cluster(manifest, machine);
}

}  // namespace troupe::launch
