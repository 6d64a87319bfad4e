#include "launch/manifest/resolve/run_spec.h"

#include <algorithm>

#include "launch/manifest/resolve/rotary.h"

namespace troupe::launch {
namespace {

int narrow(std::int64_t value) {
  return static_cast<int>(value);
}

std::optional<bool> given_flag(const Manifest& m, const char* key) {
  if (!m.given(key)) return std::nullopt;
  return m.flag(key);
}

stages::Documents documents_of(const std::string& name) {
  const auto& names = stages::kDocumentsNames;
  return stages::Documents(std::ranges::find(names, name) - names.begin());
}

std::vector<actors::RunSpec::Data::Source> sources_of(const Manifest& m) {
  std::vector<actors::RunSpec::Data::Source> sources;
  for (const MixSource& source : m.mix())
    sources.push_back({.name = source.name, .tokens = source.tokens, .weight = source.weight});
  if (sources.empty()) sources.push_back({.tokens = m.text("data.tokens")});
  return sources;
}

std::vector<actors::RunSpec::Eval::Set> eval_sets_of(const Manifest& m) {
  std::vector<actors::RunSpec::Eval::Set> sets;
  for (const EvalSet& set : m.eval_sets())
    sets.push_back(
        {.name = set.name, .tokens = set.tokens, .digest = set.digest, .samples = set.samples});
  if (!m.texts("eval.files").empty())
    sets.push_back({.name = "",
                    .tokens = m.text("eval.tokens"),
                    .digest = m.text("eval.digest"),
                    .samples = m.integer("eval.samples")});
  return sets;
}

stages::LossOn loss_on_of(const std::string& name) {
  return name == stages::name_of(stages::LossOn::response) ? stages::LossOn::response
                                                           : stages::LossOn::all;
}

stages::Decay decay_of(const std::string& name) {
  if (name == "linear") return stages::Decay::linear;
  if (name == "cosine") return stages::Decay::cosine;
  return name == "wsd" ? stages::Decay::wsd : stages::Decay::constant;
}

actors::RunSpec::OnFailure on_failure(const std::string& name) {
  if (name == "shrink") return actors::RunSpec::OnFailure::shrink;
  return name == "stop" ? actors::RunSpec::OnFailure::stop : actors::RunSpec::OnFailure::replace;
}

stages::Initializer initializer_of(const std::string& name) {
  if (name == "scaled_normal") return stages::Initializer::scaled_normal;
  return name == "xavier_uniform" ? stages::Initializer::xavier_uniform
                                  : stages::Initializer::normal;
}

stages::ModelConfig model_of(const Manifest& m) {
  const bool is_gpt2 = m.text("model.kind") == stages::name_of(stages::ModelKind::gpt2);
  return {.kind = is_gpt2 ? stages::ModelKind::gpt2 : stages::ModelKind::llama,
          .hidden_size = m.integer("model.hidden_size"),
          .intermediate_size = m.integer("model.intermediate_size"),
          .num_hidden_layers = m.integer("model.num_hidden_layers"),
          .num_attention_heads = m.integer("model.num_attention_heads"),
          .num_key_value_heads = m.integer("model.num_key_value_heads"),
          .head_dim = m.integer("model.head_dim"),
          .vocab_size = m.integer("model.vocab_size"),
          .rms_norm_eps = m.number("model.rms_norm_eps"),
          .rotary = rotary_of(m),
          .attention_bias = m.flag("model.attention_bias"),
          .mlp_bias = m.flag("model.mlp_bias"),
          .layer_norm_epsilon = m.number("model.layer_norm_epsilon"),
          .max_position_embeddings = m.integer("model.max_position_embeddings"),
          .tie_word_embeddings = m.flag("model.tie_word_embeddings"),
          .initializer_range = m.number("model.initializer_range"),
          .initializer = initializer_of(m.text("model.initializer")),
          .hidden_dropout = m.number("model.hidden_dropout"),
          .attention_dropout = m.number("model.attention_dropout"),
          .dtype = m.text("model.dtype") == "bfloat16" ? tensor::DType::bf16 : tensor::DType::f32,
          .groups = m.groups()};
}

stages::OptimizerConfig optimizer_of(const Manifest& m) {
  return {.lr = m.number("optimizer.lr"),
          .beta1 = m.pair("optimizer.betas")[0],
          .beta2 = m.pair("optimizer.betas")[1],
          .eps = m.number("optimizer.eps"),
          .weight_decay = m.number("optimizer.weight_decay"),
          .decay_all = m.flag("optimizer.decay_all"),
          .clip = m.number("optimizer.clip"),
          .warmup_steps = m.integer("optimizer.warmup_steps"),
          .decay = decay_of(m.text("optimizer.decay")),
          .decay_steps = m.integer("optimizer.decay_steps"),
          .min_lr = m.number("optimizer.min_lr"),
          .max_steps = m.integer("run.max_steps")};
}

stages::Recompute recompute_of(const Manifest& m) {
  using Mode = stages::Recompute::Mode;
  using Method = stages::Recompute::Method;
  const std::string& mode = m.text("recompute.mode");
  return {.mode = mode == "selective" ? Mode::selective
                  : mode == "output"  ? Mode::output
                  : mode == "full"    ? Mode::full
                                      : Mode::none,
          .method = m.text("recompute.method") == "block" ? Method::block : Method::uniform,
          .num_layers = narrow(m.integer("recompute.num_layers")),
          .distribute_saved_activations = m.flag("recompute.distribute_saved_activations"),
          .kept_microbatches = narrow(m.integer("recompute.kept_microbatches"))};
}

stages::StateDivision division_of(const std::string& sharding) {
  using Division = stages::StateDivision;
  if (sharding == "optim") return Division::optim;
  if (sharding == "optim_grads") return Division::optim_grads;
  return sharding == "optim_grads_params" ? Division::optim_grads_params : Division::none;
}

stages::DataParallelSpec data_parallel_of(const Manifest& m) {
  const int num_buckets = narrow(m.integer("data_parallel.num_buckets"));
  const bool is_bf16 = m.text("data_parallel.grad_reduce_dtype") == "bfloat16";
  return {.division = division_of(m.text("data_parallel.sharding")),
          .buckets = {.size = num_buckets > 0 ? 0 : m.integer("data_parallel.bucket_size"),
                      .count = num_buckets},
          .every_microbatch = m.text("data_parallel.reduce_every") != "step",
          .instances = narrow(m.integer("data_parallel.num_optimizer_instances")),
          .prefetch = narrow(m.integer("data_parallel.prefetch")),
          .reshards = m.flag("data_parallel.reshard_after_forward"),
          .overlaps = m.flag("data_parallel.overlap_grad_reduce"),
          .overlaps_gather = m.flag("data_parallel.overlap_param_gather"),
          .wire = is_bf16 ? tensor::DType::bf16 : tensor::DType::f32,
          .checks_finite = m.flag("data_parallel.check_for_nan"),
          .large_norm = m.number("data_parallel.large_grad_norm"),
          .repairs = m.text("data_parallel.on_difference") == "repair"};
}

tensor::DeviceSpec device_of(const Manifest& m) {
  const bool is_cuda = m.text("cluster.device") == "cuda";
  const bool deterministic = m.flag("cluster.deterministic");
  // A clock decides between near-equals differently each time, and so would give another run of the
  // same manifest other bits.
  const bool tunes = is_cuda && !deterministic;
  return {.kind = is_cuda ? tensor::DeviceKind::cuda : tensor::DeviceKind::cpu,
          .threads = narrow(m.integer("cluster.threads")),
          .tf32 = m.text("cluster.matmul") == "tf32",
          .deterministic = deterministic,
          .tuning = tunes ? m.text("run.dir") + "/" + kTuningFile : ""};
}

}  // namespace

actors::RunSpec to_run_spec(const Manifest& m) {
  const bool is_new = m.text("checkpoint.resume").empty();
  return {
      .name = m.text("run.name"),
      .dir = m.text("run.dir"),
      .seed = static_cast<std::uint64_t>(m.integer("run.seed")),
      .max_steps = m.integer("run.max_steps"),
      .model = model_of(m),
      .optimizer = optimizer_of(m),
      .data = {.sources = sources_of(m),
               .digest = m.text("data.digest"),
               .tokenizer = m.text("data.tokenizer"),
               .shuffle = m.flag("data.shuffle"),
               .loss_on = loss_on_of(m.text("data.loss_on")),
               .first_shard_reads = m.text("data.reader") == "first-shard"},
      .batch = {.seq_len = m.integer("batch.seq_len"),
                .micro = m.integer("batch.micro"),
                .global = m.integer("batch.global"),
                .documents = documents_of(m.text("batch.documents"))},
      .mesh = {.pp = narrow(m.integer("mesh.pp")),
               .dp = narrow(m.integer("mesh.dp")),
               .tp = narrow(m.integer("mesh.tp")),
               .sequence_parallel = m.flag("mesh.sequence_parallel") && m.integer("mesh.tp") > 1},
      .layout = m.text("mesh.layout"),
      .schedule = {.kind = m.text("schedule.kind"),
                   .chunks = narrow(m.integer("schedule.chunks")),
                   .csv = m.text("schedule.csv"),
                   .costs = m.text("schedule.costs")},
      .recompute = recompute_of(m),
      .data_parallel = data_parallel_of(m),
      .auto_layout = {.on = m.flag("schedule.auto_layout"),
                      .gain = m.number("schedule.auto_layout_gain"),
                      .steps = m.integer("schedule.auto_layout_steps")},
      .checkpoint = {.interval = m.integer("checkpoint.interval"),
                     .keep = narrow(m.integer("checkpoint.keep")),
                     .keep_best = narrow(m.integer("checkpoint.keep_best")),
                     .initial = m.flag("checkpoint.initial"),
                     .resume = is_new ? m.text("model.from") : m.text("checkpoint.resume"),
                     .weights_only = is_new || m.flag("checkpoint.weights_only")},
      .eval = {.interval = m.integer("eval.interval"),
               .steps = m.integer("eval.steps"),
               .sets = eval_sets_of(m),
               .keeps_gradients = m.flag("eval.keep_gradients")},
      .cluster = {.device = device_of(m),
                  .pin = given_flag(m, "cluster.pin"),
                  .spin = given_flag(m, "cluster.spin"),
                  .port = narrow(m.integer("cluster.port"))},
      .recovery = {.on_failure = on_failure(m.text("recovery.on_failure")),
                   .spares = narrow(m.integer("recovery.spares")),
                   .silent_s = m.number("recovery.silent"),
                   .hang_s = m.number("recovery.hang"),
                   .restarts_per_hour = narrow(m.integer("recovery.restarts_per_hour")),
                   .neighbour_copies = m.flag("recovery.neighbour_copies")},
      .log_interval = m.integer("monitor.log_interval"),
      .histogram_interval = m.integer("monitor.histograms")};
}

actors::RunSpec parse_resolved(const std::string& text) {
  const Manifest manifest = Manifest::parse(text, "manifest", {});
  for (const Key& key : manifest_keys()) {
    const std::string name = std::string(key.table) + "." + std::string(key.name);
    if (!manifest.has(name))
      throw Error(ErrorKind::manifest, "manifest: no resolved manifest, " + name + " is missing");
  }
  return to_run_spec(manifest);
}

}  // namespace troupe::launch
