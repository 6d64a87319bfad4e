#pragma once

#include <array>
#include <string_view>

#include "launch/manifest/keys/key_rules.h"

// The keys of [model], a part of manifest_keys(). Only defaults.cpp includes this.

namespace troupe::launch {

inline constexpr std::array<std::string_view, 2> kModelKinds{"llama", "gpt2"};
inline constexpr std::array<std::string_view, 2> kDTypes{"float32", "bfloat16"};
inline constexpr std::array<std::string_view, 5> kRopeTypes{"default", "linear", "dynamic", "yarn",
                                                            "llama3"};
inline constexpr std::array<std::string_view, 3> kInitializers{"normal", "scaled_normal",
                                                               "xavier_uniform"};

inline constexpr std::array kModelKeys{
    Key{"model",
        "kind",
        Kind::text,
        "\"llama\"",
        "",
        "What the layers are: llama (RMSNorm, rotary positions, SwiGLU) or gpt2 (LayerNorm, "
        "learned positions, GELU, biases)",
        {},
        kModelKinds},
    Key{"model", "from", Kind::text, "\"\"", "path",
        "A Hugging Face directory or a checkpoint: the weights to begin with, every key of [model] "
        "but dtype, and the default of data.tokenizer. Empty: fresh weights"},
    Key{"model", "hidden_size", Kind::integer, "256", "",
        "Width of the residual; a model that a laptop trains", from_one_to(262144)},
    Key{"model", "intermediate_size", Kind::integer, "688", "",
        "Width of the feed-forward layers; 8/3 of the default hidden_size in steps of 16",
        from_one_to(1048576)},
    Key{"model", "num_hidden_layers", Kind::integer, "4", "layers",
        "Decoder layers; enough for four stages", from_one_to(4096)},
    Key{"model", "num_attention_heads", Kind::integer, "4", "heads",
        "Query heads; 64 wide by default", from_one_to(4096)},
    Key{"model", "num_key_value_heads", Kind::integer, "", "heads",
        "Key and value heads, a divisor of num_attention_heads; default: num_attention_heads",
        from_one_to(4096)},
    Key{"model", "head_dim", Kind::integer, "", "",
        "Width of a head, even in llama; default: hidden_size / num_attention_heads",
        from_one_to(1024)},
    Key{"model", "vocab_size", Kind::integer, "256", "tokens",
        "Rows of the embedding; what the bytes tokenizer needs", from_one_to(16777216)},
    Key{"model", "rms_norm_eps", Kind::number, "", "",
        "llama alone: epsilon of RMSNorm; default: 1e-5, Llama 2's", kPositive},
    Key{"model", "rope_theta", Kind::number, "", "",
        "llama alone: base of the rotary embedding; default: 10000, Llama 2's", kPositive},
    Key{"model",
        "rope_type",
        Kind::text,
        "",
        "",
        "llama alone: how frequencies change for long sequences: default (not at all), linear, "
        "dynamic, yarn or llama3, as transformers computes them; default: default",
        {},
        kRopeTypes},
    Key{"model", "rope_factor", Kind::number, "", "",
        "By how much longer sequences may become; every rope_type but default needs it", kPositive},
    Key{"model", "rope_original_max_position_embeddings", Kind::integer, "", "tokens",
        "yarn and llama3 alone: the longest sequence before the change; default: "
        "max_position_embeddings",
        from_one_to(1048576)},
    Key{"model", "rope_low_freq_factor", Kind::number, "", "",
        "llama3 alone: wavelengths above original / low_freq_factor are changed wholly; default: "
        "1, Llama 3.1's",
        kPositive},
    Key{"model", "rope_high_freq_factor", Kind::number, "", "",
        "llama3 alone: wavelengths below original / high_freq_factor are not changed; default: 4, "
        "Llama 3.1's",
        kPositive},
    Key{"model", "rope_beta_fast", Kind::number, "", "turns",
        "yarn alone: pairs that turn more often in the original length are not changed; default: "
        "32, the paper's",
        kPositive},
    Key{"model", "rope_beta_slow", Kind::number, "", "turns",
        "yarn alone: pairs that turn less often are changed wholly; default: 1, the paper's",
        kPositive},
    Key{"model", "rope_attention_factor", Kind::number, "", "",
        "yarn alone: what queries and keys are multiplied by; default: 0, which stands for what "
        "the paper suggests, 0.1 ln(rope_factor) + 1",
        kFinite},
    Key{"model", "rope_mscale", Kind::number, "", "",
        "yarn alone: with rope_mscale_all_dim, another attention factor, (0.1 mscale ln(factor) + "
        "1) / (0.1 mscale_all_dim ln(factor) + 1); default: 0, not given",
        kFinite},
    Key{"model", "rope_mscale_all_dim", Kind::number, "", "", "yarn alone: see rope_mscale",
        kFinite},
    Key{"model", "rope_truncate", Kind::boolean, "", "",
        "yarn alone: whether the bounds between pairs are rounded to whole ones; default: true"},
    Key{"model", "attention_bias", Kind::boolean, "", "",
        "llama alone: biases of the queries', keys', values' and output's products; default: "
        "false, Llama's"},
    Key{"model", "mlp_bias", Kind::boolean, "", "",
        "llama alone: biases of the feed-forward products; default: false, Llama's"},
    Key{"model", "layer_norm_epsilon", Kind::number, "", "",
        "gpt2 alone: epsilon of LayerNorm; default: 1e-5, GPT-2's", kPositive},
    Key{"model", "max_position_embeddings", Kind::integer, "", "tokens",
        "Length of the sequences that the model is meant for; default: batch.seq_len. gpt2: rows "
        "of the table of positions, at least batch.seq_len. llama: bounds nothing, but rope_type "
        "dynamic and the defaults of others start from it",
        from_one_to(1048576)},
    Key{"model", "tie_word_embeddings", Kind::boolean, "", "",
        "One matrix for embedding and head; default: true for gpt2 and false for llama, as they "
        "were published"},
    Key{"model", "initializer_range", Kind::number, "0.02", "",
        "Standard deviation of initial weights; Llama's and GPT-2's", kFinite},
    Key{"model",
        "initializer",
        Kind::text,
        "\"normal\"",
        "",
        "How initial matrices are drawn: normal, as in Llama; scaled_normal, normal with the "
        "outputs of attention and feed-forward divided by sqrt(2 * num_hidden_layers), as in "
        "GPT-2; or xavier_uniform, by the inputs and outputs of each matrix",
        {},
        kInitializers},
    Key{"model", "hidden_dropout", Kind::number, "0.0", "",
        "Probability with which training drops the elements of the embedding's output and of what "
        "attention and feed-forward add to the residual; none, as in Llama",
        kFraction},
    Key{"model", "attention_dropout", Kind::number, "0.0", "",
        "Probability with which training drops the probabilities of attention; none, as in Llama",
        kFraction},
    Key{"model",
        "dtype",
        Kind::text,
        "\"float32\"",
        "",
        "Type of computation and of messages between stages; weights stay float32. float32 by "
        "default, as exactness comes before speed",
        {},
        kDTypes},
};

}  // namespace troupe::launch
