#pragma once

#include <array>
#include <string_view>

#include "launch/manifest/keys/key.h"

// The keys of [run] and [model]. Only keys.cpp includes this.

namespace troupe::launch {

inline constexpr std::array<std::string_view, 15> kModelKinds{
    "llama",  "gpt2",        "mistral", "qwen2", "qwen3",   "phi3",      "smollm3",  "gemma",
    "gemma2", "gemma3_text", "granite", "olmo2", "mixtral", "qwen3_moe", "internlm2"};
inline constexpr std::array<std::string_view, 2> kDTypes{"float32", "bfloat16"};
inline constexpr std::array<std::string_view, 6> kRopeTypes{"default", "linear", "dynamic",
                                                            "yarn",    "llama3", "longrope"};
inline constexpr std::array<std::string_view, 3> kInitializers{"normal", "scaled_normal",
                                                               "xavier_uniform"};

inline constexpr std::array kRunKeys{
    Key{"run", "name", SETTING(name), "", "",
        "Name of the run; default: the manifest's file name without .toml", kAny,
        "job_name run_name experiment_name exp_name"},
    Key{"run", "seed", SETTING(seed), "1", "",
        "Seed of initial weights, shuffling and dropout; fixed, so that runs repeat", kNotNegative,
        "random_seed data_seed"},
    Key{"run", "dir", SETTING(dir), "", "path",
        "Run directory; default: runs/<name>. Relative to the current directory, because it is an "
        "output",
        kAny, "output_dir out_dir save_dir dump_folder"},
    Key{"run", "max_steps", SETTING(max_steps), "1000", "steps",
        "Last step, counted from the first start, also after a resume; long enough to see a loss "
        "fall",
        from_one_to(1e12),
        "steps num_steps train_steps total_steps train_iters max_iters num_iterations"},
    Key{"run", "derived", SETTING(derived), "[]", "keys",
        "Written by launch: the keys of this file that follow from others or from the machine. "
        "They are derived again when the file is read; a key that is taken out of this list, or "
        "set by an override, is as it is given"},
    Key{"run", "changed", SETTING(changed), "[]", "",
        "Written by launch: what was changed on the way, by a resume or a live change, and from "
        "which step on. A launch of this file repeats the run if nothing was; else it trains all "
        "steps as the last ones. Replaced when given"},

    Key{"model", "kind", SETTING(model.kind, kModelKinds), "\"llama\"", "",
        "What the layers are: llama (RMSNorm, rotary positions, SwiGLU), gpt2 (LayerNorm, "
        "learned positions, GELU, biases), or those of another model_type of Hugging Face, whose "
        "layers are llama's but for what stages/decoder/README.md lists",
        kAny, "model_type model.type model.name arch architecture"},
    Key{"model", "from", SETTING(model_from), "\"\"", "path",
        "A Hugging Face directory or a checkpoint: the weights to begin with, every key of [model] "
        "but dtype, and the default of data.tokenizer. Empty: fresh weights",
        kAny, "pretrained pretrained_model model_name model_name_or_path base_model"},
    Key{"model", "config", SETTING(model_config), "\"\"", "JSON",
        "What the config.json of some kinds says beyond the keys below, as '{\"sliding_window\": "
        "512}': windows, soft caps, multipliers, layers without rotary positions or experts, "
        "factors "
        "of longrope. Fields that are missing are as transformers has them; not written where it "
        "is "
        "empty",
        kAny, "hf_overrides model_kwargs config_overrides", true},
    Key{"model", "hidden_size", SETTING(model.hidden_size), "256", "",
        "Width of the residual; a model that a laptop trains", from_one_to(262144),
        "d_model n_embd dim hidden hidden_dim embed_dim embedding_size"},
    Key{"model", "intermediate_size", SETTING(model.intermediate_size), "688", "",
        "Width of the feed-forward layers, or of an expert of mixtral; 8/3 of the default "
        "hidden_size in steps of 16",
        from_one_to(1048576), "ffn_hidden_size d_ff ffn_dim intermediate_dim n_inner"},
    Key{"model", "num_hidden_layers", SETTING(model.num_hidden_layers), "4", "layers",
        "Decoder layers; enough for four stages", from_one_to(4096),
        "num_layers n_layers n_layer layers"},
    Key{"model", "num_attention_heads", SETTING(model.num_attention_heads), "4", "heads",
        "Query heads; 64 wide by default", from_one_to(4096), "num_heads n_heads n_head heads"},
    Key{"model", "num_key_value_heads", SETTING(model.num_key_value_heads), "", "heads",
        "Key and value heads, a divisor of num_attention_heads; default: num_attention_heads",
        from_one_to(4096), "n_kv_heads num_kv_heads kv_heads num_query_groups"},
    Key{"model", "head_dim", SETTING(model.head_dim), "", "",
        "Width of a head, even in llama; default: hidden_size / num_attention_heads",
        from_one_to(1024), "kv_channels d_head d_kv"},
    Key{"model", "vocab_size", SETTING(model.vocab_size), "256", "tokens",
        "Rows of the embedding; what the bytes tokenizer needs", from_one_to(16777216),
        "vocab vocabulary_size padded_vocab_size"},
    Key{"model", "rms_norm_eps", SETTING(model.rms_norm_eps), "", "",
        "All but gpt2: epsilon of RMSNorm; default: 1e-5, Llama 2's", kPositive,
        "norm_eps norm_epsilon rms_eps"},
    Key{"model", "rope_theta", SETTING(model.rotary.theta), "", "",
        "All but gpt2: base of the rotary embedding; default: 10000, Llama 2's", kPositive,
        "rope_base rotary_base rotary_emb_base"},
    Key{"model", "rope_type", SETTING(model.rotary.type, kRopeTypes), "", "",
        "All but gpt2: how frequencies change for long sequences: default (not at all), linear, "
        "dynamic, yarn or llama3, as transformers computes them, or phi3's longrope, whose factors "
        "are in model.config; default: default"},
    Key{"model", "rope_factor", SETTING(model.rotary.factor), "", "",
        "By how much longer sequences may become; every rope_type but default needs it", kPositive},
    Key{"model", "rope_original_max_position_embeddings",
        SETTING(model.rotary.original_max_position_embeddings), "", "tokens",
        "yarn, llama3 and longrope alone: the longest sequence before the change; default: "
        "max_position_embeddings",
        from_one_to(1048576)},
    Key{"model", "rope_low_freq_factor", SETTING(model.rotary.low_freq_factor), "", "",
        "llama3 alone: wavelengths above original / low_freq_factor are changed wholly; default: "
        "1, Llama 3.1's",
        kPositive},
    Key{"model", "rope_high_freq_factor", SETTING(model.rotary.high_freq_factor), "", "",
        "llama3 alone: wavelengths below original / high_freq_factor are not changed; default: 4, "
        "Llama 3.1's",
        kPositive},
    Key{"model", "rope_beta_fast", SETTING(model.rotary.beta_fast), "", "turns",
        "yarn alone: pairs that turn more often in the original length are not changed; default: "
        "32, the paper's",
        kPositive},
    Key{"model", "rope_beta_slow", SETTING(model.rotary.beta_slow), "", "turns",
        "yarn alone: pairs that turn less often are changed wholly; default: 1, the paper's",
        kPositive},
    Key{"model", "rope_attention_factor", SETTING(model.rotary.attention_factor), "", "",
        "yarn and longrope alone: what queries and keys are multiplied by; default: 0, which "
        "stands "
        "for what the papers suggest, 0.1 ln(rope_factor) + 1 and sqrt(1 + ln(rope_factor) / "
        "ln(original))",
        kFinite},
    Key{"model", "rope_mscale", SETTING(model.rotary.mscale), "", "",
        "yarn alone: with rope_mscale_all_dim, another attention factor, (0.1 mscale ln(factor) + "
        "1) / (0.1 mscale_all_dim ln(factor) + 1); default: 0, not given",
        kFinite},
    Key{"model", "rope_mscale_all_dim", SETTING(model.rotary.mscale_all_dim), "", "",
        "yarn alone: see rope_mscale", kFinite},
    Key{"model", "rope_truncate", SETTING(model.rotary.truncate), "", "",
        "yarn alone: whether the bounds between pairs are rounded to whole ones; default: true"},
    Key{"model", "attention_bias", SETTING(model.attention_bias), "", "",
        "Where a kind has the choice: biases of the queries', keys', values' and output's "
        "products; default: false, Llama's"},
    Key{"model", "mlp_bias", SETTING(model.mlp_bias), "", "",
        "Where a kind has the choice: biases of the feed-forward products; default: false, "
        "Llama's"},
    Key{"model", "layer_norm_epsilon", SETTING(model.layer_norm_epsilon), "", "",
        "gpt2 alone: epsilon of LayerNorm; default: 1e-5, GPT-2's", kPositive},
    Key{"model", "max_position_embeddings", SETTING(model.max_position_embeddings), "", "tokens",
        "Length of the sequences that the model is meant for; default: batch.seq_len. gpt2: rows "
        "of the table of positions, at least batch.seq_len. Others: bounds nothing, but rope_type "
        "dynamic and the defaults of others start from it",
        from_one_to(1048576)},
    Key{"model", "num_experts", SETTING(model.experts.count), "", "experts",
        "mixtral and qwen3_moe alone: experts of each layer that has some; default: 8, Mixtral's",
        from_one_to(4096), "num_local_experts n_experts moe_num_experts num_moe_experts"},
    Key{"model", "num_experts_per_tok", SETTING(model.experts.per_token), "", "experts",
        "The experts that a router chooses for each token, all of which compute it; default: 2, "
        "Mixtral's",
        from_one_to(4096), "moe_router_topk moe_top_k experts_per_token num_selected_experts"},
    Key{"model", "moe_intermediate_size", SETTING(model.experts.width), "", "",
        "Width of an expert; default: intermediate_size, which it must be in mixtral",
        from_one_to(1048576), "moe_ffn_hidden_size expert_intermediate_size"},
    Key{"model", "norm_topk_prob", SETTING(model.experts.normalizes), "", "",
        "Whether the weights of the chosen experts are divided by their sum, as in mixtral; "
        "default: true",
        kAny, "moe_router_normalize norm_topk"},
    Key{"model", "router_aux_loss_coef", SETTING(model.experts.aux_loss_coef), "", "",
        "What the loss for even loads of experts is multiplied by, the mean over layers of "
        "num_experts * sum_e (share of the tokens that chose e) * (mean probability of e) in a "
        "microbatch; 0: none. Default: that of model.from, if its config.json has "
        "output_router_logits, else 0",
        kFinite, "moe_aux_loss_coeff aux_loss_coef load_balancing_loss_coef"},
    Key{"model", "router_z_loss_coef", SETTING(model.experts.z_loss_coef), "0.0", "",
        "What the mean over layers of the square of log(sum of exp(logits)) of a router is "
        "multiplied by; 0: none. Not written where it is 0",
        kFinite, "moe_z_loss_coeff z_loss_coef", true},
    Key{"model", "expert_capacity", SETTING(model.experts.capacity), "0", "rows",
        "Most tokens of a microbatch that one expert may have to compute, beyond which the run "
        "stops and names it, in the place of taking more memory; 0: any number. Not written where "
        "it is 0",
        from_zero_to(1e12), "moe_expert_capacity capacity_factor", true},
    Key{"model", "tie_word_embeddings", SETTING(model.tie_word_embeddings), "", "",
        "One matrix for embedding and head; default: true for gpt2, smollm3 and Gemma's kinds and "
        "false for others, as they were published",
        kAny, "tie_embeddings tie_weights tied_embeddings"},
    Key{"model", "initializer_range", SETTING(model.initializer_range), "0.02", "",
        "Standard deviation of initial weights; Llama's and GPT-2's", kFinite,
        "init_method_std init_std initializer_std"},
    Key{"model", "initializer", SETTING(model.initializer, kInitializers), "\"normal\"", "",
        "How initial matrices are drawn: normal, as in Llama; scaled_normal, normal with the "
        "outputs of attention and feed-forward divided by sqrt(2 * num_hidden_layers), as in "
        "GPT-2; or xavier_uniform, by the inputs and outputs of each matrix"},
    Key{"model", "hidden_dropout", SETTING(model.hidden_dropout), "0.0", "",
        "Probability with which training drops the elements of the embedding's output and of what "
        "attention and feed-forward add to the residual; none, as in Llama",
        kFraction},
    Key{"model", "attention_dropout", SETTING(model.attention_dropout), "0.0", "",
        "Probability with which training drops the probabilities of attention; none, as in Llama",
        kFraction},
    Key{"model", "loss_chunk", SETTING(model.loss_chunk), "0", "tokens",
        "Tokens whose logits are in memory at a time. Fewer than a microbatch has are computed "
        "once more in the backward, in the place of being kept; 0: all, but no more than take 256 "
        "MiB",
        from_zero_to(1e9), "chunked_loss loss_chunk_size ce_chunk_size"},
    Key{"model", "dtype", SETTING(model.dtype, kDTypes), "\"float32\"", "",
        "Type of computation and of messages between stages; weights stay float32. float32 by "
        "default, as exactness comes before speed",
        kAny, "precision mixed_precision torch_dtype param_dtype bf16"},
};

}  // namespace troupe::launch
