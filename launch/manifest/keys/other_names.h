#pragma once

#include <array>
#include <string_view>

// What tables, keys and values are called in other trainers, and were called in earlier versions,
// for messages about unknown ones. What else keys are called stands in their rows (Key::called).

namespace troupe::launch {

/// Names of something, separated by spaces, and what is here instead: a table, a key with its
/// table, or a sentence about what does the same.
struct Synonyms {
  std::string_view names;
  std::string_view here;
};

inline constexpr std::array kTableSynonyms{
    Synonyms{"train training trainer training_args job", "run"},
    Synonyms{"parallel parallelism parallelisms distributed topology", "mesh"},
    Synonyms{"dataset datasets dataloader", "data"},
    Synonyms{"optim lr_scheduler scheduler", "optimizer"},
    Synonyms{"activation_checkpoint activation_checkpointing activation_recompute", "recompute"},
    Synonyms{"lora peft", "adapter"},
    Synonyms{"ddp fsdp zero zero_optimization", "data_parallel"},
    Synonyms{"evaluation validation valid", "eval"},
    Synonyms{"checkpoints checkpointing ckpt save", "checkpoint"},
    Synonyms{"metrics logging log wandb", "monitor"},
};

/// Names of keys in earlier versions.
inline constexpr std::array kRenamedKeys{Synonyms{"recovery.on_loss", "recovery.on_failure"}};

/// Keys of Megatron-LM that the manifest does not have, or by a name that says more.
inline constexpr std::array kMegatronKeys{
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

/// Names of keys of which there is none here.
inline constexpr std::array kWithoutKey{
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
    Synonyms{"adapter.use_dora adapter.bias adapter.modules_to_save adapter.rank_pattern "
             "adapter.alpha_pattern adapter.init_lora_weights adapter.peft_type "
             "adapter.layers_to_transform",
             "an adapter is LoRA's A and B of all modules of its targets, of one rank and scale"},
    Synonyms{"wandb wandb_project use_wandb", "a run is recorded by monitor.tensorboard"},
};

/// Names of a value of a key.
struct ValueSynonyms {
  std::string_view key;
  std::string_view names;
  std::string_view here;
};

inline constexpr std::array kValueSynonyms{
    ValueSynonyms{"data_parallel.sharding", "zero0 0 ddp no_shard off", "none"},
    ValueSynonyms{"data_parallel.sharding", "zero1 zero stage1 1 os distributed_optimizer",
                  "optim"},
    ValueSynonyms{"data_parallel.sharding", "zero2 stage2 2 os_g shard_grad_op", "optim_grads"},
    ValueSynonyms{"data_parallel.sharding", "zero3 stage3 3 os_g_p fsdp fsdp2 full full_shard hsdp",
                  "optim_grads_params"},
    ValueSynonyms{"model.dtype", "fp32 f32 float single 32", "float32"},
    ValueSynonyms{"model.dtype", "bf16 bf16_mixed mixed amp 16", "bfloat16"},
    ValueSynonyms{"data_parallel.grad_reduce_dtype", "fp32 f32 float single 32", "float32"},
    ValueSynonyms{"data_parallel.grad_reduce_dtype", "bf16 bf16_mixed mixed amp 16", "bfloat16"},
    ValueSynonyms{"optimizer.decay", "none off constant_with_warmup", "constant"},
    ValueSynonyms{"optimizer.decay", "cosine_annealing cosine_with_warmup cos", "cosine"},
    ValueSynonyms{"optimizer.decay", "warmup_stable_decay trapezoidal", "wsd"},
    ValueSynonyms{"recompute.mode", "false off no", "none"},
    ValueSynonyms{"recompute.mode", "true on all yes", "full"},
    ValueSynonyms{"recompute.mode", "attention core_attn", "selective"},
    ValueSynonyms{"schedule.kind", "one_f_one_b pipedream_flush dapple", "1f1b"},
    ValueSynonyms{"schedule.kind", "interleaved_1f1b interleaved_one_f_one_b virtual_pipeline vpp",
                  "interleaved"},
    ValueSynonyms{"schedule.kind", "zero_bubble zb zbh1", "zb-h1"},
    ValueSynonyms{"cluster.device", "gpu nvidia", "cuda"},
    ValueSynonyms{"model.kind", "llama2 llama3 llamaforcausallm", "llama"},
    ValueSynonyms{"model.kind", "gpt gpt2lmheadmodel", "gpt2"},
    ValueSynonyms{"model.kind", "mistralforcausallm mistral_nemo nemo", "mistral"},
    ValueSynonyms{"model.kind", "qwen qwen25 qwen2_5 qwen2forcausallm", "qwen2"},
    ValueSynonyms{"model.kind", "qwen3forcausallm", "qwen3"},
    ValueSynonyms{"model.kind", "mixtralforcausallm moe mixtral_8x7b", "mixtral"},
    ValueSynonyms{"model.kind", "qwen3moe qwen_moe qwen3moeforcausallm", "qwen3_moe"},
    ValueSynonyms{"model.kind", "phi phi4 phi4_mini phi3forcausallm", "phi3"},
    ValueSynonyms{"model.kind", "gemma3 gemma3forcausallm", "gemma3_text"},
    ValueSynonyms{"model.kind", "olmo olmo2forcausallm", "olmo2"},
    ValueSynonyms{"model.kind", "internlm internlm2_5 internlm2forcausallm", "internlm2"},
};

}  // namespace troupe::launch
