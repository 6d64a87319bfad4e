#include "stages/files/hugging_face/config_fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "stages/storage/data_error.h"
#include "tensor/errors/error.h"

namespace troupe::stages {
namespace {

using nlohmann::json;

/// A field of decoders that Troupe does not have, and the value, besides null, with which it
/// changes nothing.
struct Unsupported {
  const char* field;
  const char* neutral;
};
constexpr Unsupported kUnsupported[]{{"sliding_window", "null"},
                                     {"use_sliding_window", "false"},
                                     {"attention_chunk_size", "null"},
                                     {"final_logit_softcapping", "null"},
                                     {"attn_logit_softcapping", "null"},
                                     {"partial_rotary_factor", "1"},
                                     {"rotary_pct", "1"},
                                     {"rotary_dim", "null"},
                                     {"no_rope_layers", "[]"},
                                     {"alibi", "false"},
                                     {"use_qk_norm", "false"},
                                     {"qk_layernorm", "false"},
                                     {"clip_qkv", "null"},
                                     {"query_pre_attn_scalar", "null"},
                                     {"attention_multiplier", "null"},
                                     {"embedding_multiplier", "1"},
                                     {"residual_multiplier", "1"},
                                     {"logits_scaling", "1"},
                                     {"logit_scale", "1"},
                                     {"num_local_experts", "0"},
                                     {"num_experts", "0"},
                                     {"n_shared_experts", "0"},
                                     {"shared_expert_intermediate_size", "0"},
                                     {"router_jitter_noise", "0"},
                                     {"parallel_attn", "false"},
                                     {"use_bidirectional_attention", "false"},
                                     {"use_parallel_residual", "false"},
                                     {"scale_attn_weights", "true"},
                                     {"scale_attn_by_inverse_layer_idx", "false"},
                                     {"add_cross_attention", "false"},
                                     {"is_encoder_decoder", "false"}};

/// Fields about text, files, other outputs and how a computation is arranged.
constexpr std::string_view kSilent[]{"_name_or_path",
                                     "_sliding_window_pattern",
                                     "architectures",
                                     "auto_map",
                                     "bad_words_ids",
                                     "begin_suppress_tokens",
                                     "cache_implementation",
                                     "bos_token_id",
                                     "chunk_size_feed_forward",
                                     "decoder_start_token_id",
                                     "do_sample",
                                     "dtype",
                                     "eos_token_id",
                                     "finetuning_task",
                                     "forced_bos_token_id",
                                     "forced_eos_token_id",
                                     "id2label",
                                     "is_decoder",
                                     "label2id",
                                     "max_length",
                                     "max_sequence_length",
                                     "model_type",
                                     "n_ctx",
                                     "num_labels",
                                     "output_attentions",
                                     "output_hidden_states",
                                     "pad_token_id",
                                     "prefix",
                                     "pretraining_tp",
                                     "problem_type",
                                     "reorder_and_upcast_attn",
                                     "repetition_penalty",
                                     "return_dict",
                                     "summary_activation",
                                     "summary_first_dropout",
                                     "summary_proj_to_labels",
                                     "summary_type",
                                     "summary_use_proj",
                                     "suppress_tokens",
                                     "task_specific_params",
                                     "temperature",
                                     "tie_encoder_decoder",
                                     "tokenizer_class",
                                     "top_k",
                                     "top_p",
                                     "torch_dtype",
                                     "torchscript",
                                     "transformers_version",
                                     "unsloth_version",
                                     "use_cache"};

}  // namespace

const json& ConfigFields::value(const std::string& name) {
  asked_.insert(name);
  const auto found = object_.find(name);
  return found == object_.end() ? null_ : *found;
}

void ConfigFields::refuse(const std::string& name, const std::string& why) const {
  constexpr std::size_t kMostText = 100;
  const auto found = object_.find(name);
  std::string shown = found == object_.end() ? "" : " = " + found->dump();
  if (shown.size() > kMostText) shown = shown.substr(0, kMostText) + "...";
  throw data_error("{}: {}{}: {}", place_, name, shown, why);
}

void ConfigFields::refuse_unsupported() {
  constexpr const char* kQuantization = "quantization_config";
  if (const json& found = value(kQuantization); !found.is_null()) {
    const auto method = found.find("quant_method");
    const bool is_named = found.is_object() && method != found.end() && method->is_string();
    refuse(kQuantization, (is_named ? method->get<std::string>() + ": " : "") +
                              "weights are quantized, which Troupe does not read; expected null");
  }
  for (const auto& [field, neutral] : kUnsupported) {
    if (asked_.contains(field)) continue;
    if (const json& found = value(field); !found.is_null() && found != json::parse(neutral))
      refuse(field, fmt::format("Troupe does not compute this; expected {}", neutral));
  }
}

std::vector<std::string> ConfigFields::unused() const {
  std::vector<std::string> names;
  for (const auto& [name, value] : object_.items())
    if (!asked_.contains(name) && std::ranges::count(kSilent, name) == 0) names.push_back(name);
  return names;
}

}  // namespace troupe::stages
