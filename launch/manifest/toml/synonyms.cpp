#include "launch/manifest/toml/synonyms.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>

namespace troupe::launch {
namespace {

constexpr std::array kTables{
    Synonyms{"train training trainer training_args job", "run"},
    Synonyms{"parallel parallelism parallelisms distributed topology", "mesh"},
    Synonyms{"dataset datasets dataloader", "data"},
    Synonyms{"optim lr_scheduler scheduler", "optimizer"},
    Synonyms{"activation_checkpoint activation_checkpointing activation_recompute", "recompute"},
    Synonyms{"ddp fsdp zero zero_optimization", "data_parallel"},
    Synonyms{"evaluation validation valid", "eval"},
    Synonyms{"checkpoints checkpointing ckpt save", "checkpoint"},
    Synonyms{"metrics logging log wandb", "monitor"},
};

constexpr std::array kNames{
    Synonyms{"steps num_steps train_steps total_steps train_iters max_iters num_iterations",
             "run.max_steps"},
    Synonyms{"output_dir out_dir save_dir dump_folder", "run.dir"},
    Synonyms{"job_name run_name experiment_name exp_name", "run.name"},

    Synonyms{"random_seed data_seed", "run.seed"},

    Synonyms{"d_model n_embd dim hidden hidden_dim embed_dim embedding_size", "model.hidden_size"},
    Synonyms{"ffn_hidden_size d_ff ffn_dim intermediate_dim n_inner", "model.intermediate_size"},
    Synonyms{"num_layers n_layers n_layer layers", "model.num_hidden_layers"},
    Synonyms{"num_heads n_heads n_head heads", "model.num_attention_heads"},
    Synonyms{"n_kv_heads num_kv_heads kv_heads num_query_groups", "model.num_key_value_heads"},
    Synonyms{"kv_channels d_head d_kv", "model.head_dim"},
    Synonyms{"vocab vocabulary_size padded_vocab_size", "model.vocab_size"},
    Synonyms{"norm_eps norm_epsilon rms_eps", "model.rms_norm_eps"},
    Synonyms{"rope_base rotary_base rotary_emb_base", "model.rope_theta"},
    Synonyms{"tie_embeddings tie_weights tied_embeddings", "model.tie_word_embeddings"},
    Synonyms{"init_method_std init_std initializer_std", "model.initializer_range"},
    Synonyms{"precision mixed_precision torch_dtype param_dtype bf16", "model.dtype"},
    Synonyms{"model_type model.type model.name arch architecture", "model.kind"},
    Synonyms{"pretrained pretrained_model model_name model_name_or_path base_model", "model.from"},

    Synonyms{"dataset data_path data.path data.paths data_files train_data train_file train_files "
             "corpus",
             "data.files"},
    Synonyms{"tokenizer_path tokenizer_name tokenizer_model tokenizer_file", "data.tokenizer"},
    Synonyms{"data_mix mixture data_weights blend", "data.mix"},

    Synonyms{"seq_length seqlen sequence_length max_seq_len max_seq_length context context_length "
             "block_size n_ctx n_positions cutoff_len",
             "batch.seq_len"},
    Synonyms{"micro_batch_size micro_batch mbs microbatch_size per_device_train_batch_size "
             "device_batch_size local_batch_size",
             "batch.micro"},
    Synonyms{"batch_size bs gbs global_batch_size global_batch train_batch_size total_batch_size",
             "batch.global"},

    Synonyms{"learning_rate max_lr peak_lr base_lr", "optimizer.lr"},
    Synonyms{"wd decay_rate", "optimizer.weight_decay"},
    Synonyms{"beta1 beta2 adam_beta1 adam_beta2 adam_betas", "optimizer.betas"},
    Synonyms{"epsilon adam_eps adam_epsilon", "optimizer.eps"},
    Synonyms{
        "grad_clip clip_grad max_grad_norm max_norm gradient_clipping gradient_clip_val clip_norm",
        "optimizer.clip"},
    Synonyms{"warmup warmup_iters lr_warmup_iters lr_warmup_steps num_warmup_steps",
             "optimizer.warmup_steps"},
    Synonyms{"lr_decay_style lr_schedule lr_scheduler lr_scheduler_type scheduler decay_type",
             "optimizer.decay"},
    Synonyms{"lr_decay_iters lr_decay_steps", "optimizer.decay_steps"},
    Synonyms{"lr_min final_lr end_lr min_learning_rate", "optimizer.min_lr"},
    Synonyms{"param_groups parameter_groups groups", "optimizer.group"},

    Synonyms{"pipeline_parallel pipeline_parallel_size pipeline_parallel_degree "
             "pipeline_model_parallel_size pp_size stages num_stages",
             "mesh.pp"},
    Synonyms{"tensor_parallel tensor_parallel_size tensor_parallel_degree "
             "tensor_model_parallel_size tp_size model_parallel_size",
             "mesh.tp"},
    Synonyms{"data_parallel data_parallel_size data_parallel_degree dp_size replicas "
             "data_parallel_replicate_degree",
             "mesh.dp"},

    Synonyms{"pipeline_schedule pipeline_parallel_schedule schedule.type schedule.name",
             "schedule.kind"},
    Synonyms{"virtual_pipeline_model_parallel_size num_model_chunks vpp virtual_stages",
             "schedule.chunks"},
    Synonyms{"gradient_checkpointing activation_checkpointing activation_checkpoint "
             "recompute_activations recompute_granularity recompute.enabled",
             "recompute.mode"},
    Synonyms{"zero zero_stage zero_optimization fsdp sharding_strategy data_parallel.stage",
             "data_parallel.sharding"},

    Synonyms{"save_interval save_steps save_every save_freq checkpoint_interval ckpt_interval "
             "checkpoint_every checkpoint.every checkpoint.freq",
             "checkpoint.interval"},
    Synonyms{"save_total_limit max_checkpoints keep_last keep_latest_k", "checkpoint.keep"},
    Synonyms{"save_top_k load_best_model_at_end save_best keep_best_k", "checkpoint.keep_best"},
    Synonyms{"load resume_from resume_from_checkpoint load_checkpoint", "checkpoint.resume"},
    Synonyms{"eval_interval eval_every eval_freq eval.every eval.freq val_check_interval "
             "evaluation_interval",
             "eval.interval"},
    Synonyms{"eval_iters num_eval_steps max_eval_steps eval_batches", "eval.steps"},
    Synonyms{"eval_data eval_file eval_files val_data val_file valid_data validation_files",
             "eval.files"},
    Synonyms{"eval_sets eval_datasets val_sets validation_sets sets", "eval.set"},
    Synonyms{"num_threads n_threads omp_num_threads cpu_threads", "cluster.threads"},
    Synonyms{"accelerator backend device_type", "cluster.device"},
    Synonyms{"logging_steps log_every log_freq print_freq", "monitor.log_interval"},
    Synonyms{"tensorboard_dir enable_tensorboard", "monitor.tensorboard"},
};

constexpr std::array kRenamedKeys{Synonyms{"recovery.on_loss", "recovery.on_failure"}};

constexpr std::array kMegatronKeys{
    Synonyms{"data_parallel.average_in_collective data_parallel.gradient_reduce_div_fusion",
             "nothing is averaged: each loss is divided by the number of tokens of the step "
             "already"},
    Synonyms{
        "data_parallel.grad_reduce_in_fp32 data_parallel.reduce_scatter_with_fp32_accumulation",
        "grad_reduce_dtype says what travels, and every sum is in float32"},
    Synonyms{"data_parallel.num_distributed_optimizer_instances",
             "the key is num_optimizer_instances"},
    Synonyms{
        "data_parallel.use_distributed_optimizer data_parallel.data_parallel_sharding_strategy",
        "sharding says what the replicas divide"},
    Synonyms{"data_parallel.check_for_nan_in_grad", "the key is check_for_nan"},
    Synonyms{"data_parallel.check_for_large_grads",
             "large_grad_norm is the norm from which a bucket is reported"},
    Synonyms{"data_parallel.pad_buckets_for_high_nccl_busbw",
             "buckets end with parameters, so that no layout depends on the number of replicas"},
    Synonyms{"data_parallel.delay_wgrad_compute",
             "a schedule.kind such as zb-h1 computes weight gradients later"},
};

constexpr std::array kWithoutKey{
    Synonyms{
        "epochs num_epochs n_epochs num_train_epochs train_epochs max_epochs",
        "a run has a number of steps, run.max_steps, and launch tells how many epochs of the data "
        "they are"},
    Synonyms{
        "gradient_accumulation gradient_accumulation_steps grad_accum grad_accum_steps "
        "grad_accumulation_steps accum_steps accumulation_steps accumulate_grad_batches",
        "a step adds the gradients of batch.global / (batch.micro * mesh.dp) microbatches of each "
        "replica"},
    Synonyms{"warmup_ratio warmup_fraction lr_warmup_fraction",
             "the warm-up has a number of steps, optimizer.warmup_steps"},
    Synonyms{"world_size num_processes nproc nproc_per_node num_gpus n_gpus gpus gpus_per_node "
             "num_workers num_ranks",
             "a run has mesh.pp * mesh.dp * mesh.tp ranks"},
    Synonyms{"optimizer.type optimizer.name optim optimizer_type optimizer_name",
             "the optimizer is AdamW"},
    Synonyms{"cp context_parallel context_parallel_size context_parallel_degree",
             "a sequence is not divided among ranks"},
    Synonyms{"ep expert_parallel expert_parallel_size num_experts moe", "models have no experts"},
    Synonyms{"wandb wandb_project use_wandb", "a run is recorded by monitor.tensorboard"},
};

constexpr std::array kShardingValues{
    Synonyms{"zero0 0 ddp no_shard off", "none"},
    Synonyms{"zero1 zero stage1 1 os distributed_optimizer", "optim"},
    Synonyms{"zero2 stage2 2 os_g shard_grad_op", "optim_grads"},
    Synonyms{"zero3 stage3 3 os_g_p fsdp fsdp2 full full_shard hsdp", "optim_grads_params"},
};
constexpr std::array kDTypeValues{
    Synonyms{"fp32 f32 float single 32", "float32"},
    Synonyms{"bf16 bf16_mixed mixed amp 16", "bfloat16"},
};
constexpr std::array kDecayValues{
    Synonyms{"none off constant_with_warmup", "constant"},
    Synonyms{"cosine_annealing cosine_with_warmup cos", "cosine"},
    Synonyms{"warmup_stable_decay trapezoidal", "wsd"},
};
constexpr std::array kRecomputeValues{
    Synonyms{"false off no", "none"},
    Synonyms{"true on all yes", "full"},
    Synonyms{"attention core_attn", "selective"},
};
constexpr std::array kScheduleValues{
    Synonyms{"one_f_one_b pipedream_flush dapple", "1f1b"},
    Synonyms{"interleaved_1f1b interleaved_one_f_one_b virtual_pipeline vpp", "interleaved"},
    Synonyms{"zero_bubble zb zbh1", "zb-h1"},
};
constexpr std::array kDeviceValues{
    Synonyms{"gpu nvidia", "cuda"},
};
constexpr std::array kKindValues{
    Synonyms{"llama2 llama3 llamaforcausallm", "llama"},
    Synonyms{"gpt gpt2lmheadmodel", "gpt2"},
};

// Keys of lists of tables.
constexpr std::array kMixNames{
    Synonyms{"file path paths data data_files", "files"},
    Synonyms{"ratio proportion probability prob", "weight"},
};
constexpr std::array kSetNames{
    Synonyms{"file path paths data data_files", "files"},
};
constexpr std::array kGroupNames{
    Synonyms{"params parameters pattern patterns modules param_names", "match"},
    Synonyms{"lr learning_rate max_lr lr_mult lr_multiplier lr_factor", "lr_scale"},
    Synonyms{"wd decay", "weight_decay"},
    Synonyms{"freeze requires_grad trainable", "frozen"},
};

/// Lower case, without what separates words.
std::string plain(std::string_view name) {
  std::string out;
  for (const char c : name)
    if (c != '-' && c != '_') out += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

}  // namespace

std::span<const Synonyms> table_synonyms() {
  return kTables;
}

std::span<const Synonyms> key_synonyms() {
  return kNames;
}

std::span<const Synonyms> renamed_keys() {
  return kRenamedKeys;
}

std::span<const Synonyms> megatron_keys() {
  return kMegatronKeys;
}

std::span<const Synonyms> names_without_key() {
  return kWithoutKey;
}

std::span<const Synonyms> row_key_synonyms(std::string_view list) {
  if (list == "data.mix") return kMixNames;
  if (list == "eval.set") return kSetNames;
  if (list == "optimizer.group") return kGroupNames;
  return {};
}

std::span<const Synonyms> value_synonyms(std::string_view key) {
  if (key == "data_parallel.sharding") return kShardingValues;
  if (key == "model.dtype" || key == "data_parallel.grad_reduce_dtype") return kDTypeValues;
  if (key == "optimizer.decay") return kDecayValues;
  if (key == "recompute.mode") return kRecomputeValues;
  if (key == "schedule.kind") return kScheduleValues;
  if (key == "cluster.device") return kDeviceValues;
  if (key == "model.kind") return kKindValues;
  return {};
}

std::string_view find_synonym(std::span<const Synonyms> table, std::string_view name) {
  const std::string wanted = plain(name);
  for (const Synonyms& row : table) {
    std::string_view rest = row.names;
    while (!rest.empty()) {
      const auto end = std::min(rest.find(' '), rest.size());
      if (plain(rest.substr(0, end)) == wanted) return row.here;
      rest.remove_prefix(std::min(end + 1, rest.size()));
    }
  }
  return {};
}

std::string key_synonym(std::string_view table, std::string_view name) {
  const std::string full = fmt::format("{}.{}", table, name);
  const auto first_of = [&](std::span<const Synonyms> names) {
    const auto here = find_synonym(names, full);
    return here.empty() ? find_synonym(names, name) : here;
  };
  if (const auto key = first_of(kNames); !key.empty())
    return fmt::format("{} is {} here", name, key);
  return std::string(first_of(kWithoutKey));
}

std::string key_without_table(std::string_view name) {
  // Without a table "steps" are those of the run rather than eval.steps.
  if (std::string synonym = key_synonym("", name); !synonym.empty()) return synonym;
  const auto keys = manifest_keys();
  const auto key = std::ranges::find(keys, name, &Key::name);
  return key != keys.end() ? fmt::format("did you mean {}.{}?", key->table, name) : "";
}

std::string value_synonym(std::string_view table, std::string_view key, std::string_view value) {
  const auto here = find_synonym(value_synonyms(fmt::format("{}.{}", table, key)), value);
  if (here.empty() || here == value) return "";  // the value itself, which is written so here
  return fmt::format("{} is {} = '{}' here", value, key, here);
}

}  // namespace troupe::launch
