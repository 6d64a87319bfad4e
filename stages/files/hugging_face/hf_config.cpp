#include "stages/files/hugging_face/hf_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <ranges>
#include <variant>

#include "stages/files/hugging_face/config_fields.h"
#include "stages/files/hugging_face/expert_fields.h"
#include "stages/files/hugging_face/hf_kinds.h"
#include "stages/files/hugging_face/layer_fields.h"
#include "stages/storage/data_error.h"
#include "tensor/errors/error.h"

namespace troupe::stages {
namespace {

using nlohmann::json;

constexpr const char* kModelType = "model_type";
constexpr const char* kArchitectures = "architectures";
constexpr const char* kTokenClassifier = "LlamaForTokenClassification";
constexpr const char* kLabels = "num_labels";

/// Kinds of models that people use, and what of them Troupe does not compute.
struct MissingKind {
  const char* name;
  const char* missing;
};
constexpr MissingKind kMissing[]{
    {"bloom", "LayerNorm with biases, alibi"},
    {"cohere", "parallel blocks, LayerNorm, logit_scale"},
    {"cohere2", "parallel blocks, LayerNorm, logit_scale"},
    {"deepseek_v2", "latent attention (kv_lora_rank), shared experts"},
    {"deepseek_v3", "latent attention (kv_lora_rank), shared experts, routing by groups"},
    {"falcon", "parallel blocks, one key head, alibi"},
    {"gemma3", "a vision tower; the text model alone is gemma3_text"},
    {"gemma3n", "a vision tower, embeddings for each layer"},
    {"gpt_neox", "parallel blocks, LayerNorm"},
    {"gpt_oss", "attention sinks, experts with biases, mxfp4 weights"},
    {"jamba", "state-space layers, experts"},
    {"kimi_k2", "latent attention (kv_lora_rank), shared experts, routing by groups"},
    {"lfm2", "convolution layers"},
    {"llama4", "a vision tower, experts, chunked attention"},
    {"mamba", "state-space layers"},
    {"mamba2", "state-space layers"},
    {"ministral", "windows in layers of Mistral by layer_types"},
    {"olmo", "norms without weights, clip_qkv"},
    {"olmo3", "windows in layers of OLMo by layer_types"},
    {"opt", "LayerNorm with biases and learned positions beside ReLU"},
    {"qwen2_moe", "experts, a shared one among them"},
    {"qwen3_next", "linear attention, experts"},
    {"stablelm", "LayerNorm beside rotary positions"},
    {"starcoder2", "LayerNorm beside rotary positions"}};

ModelConfig read_kind(ConfigFields& fields) {
  ModelConfig model;
  const auto type = fields.get<std::string>(kModelType, "");
  const auto kinds = model_kinds();
  const auto found = std::ranges::find(kinds, type, &KindTraits::name);
  if (const auto* const known = std::ranges::find(kMissing, type, &MissingKind::name);
      known != std::end(kMissing))
    fields.refuse(kModelType, fmt::format("Troupe does not compute this: {}", known->missing));
  if (found == kinds.end())
    fields.refuse(kModelType,
                  fmt::format("expected {}",
                              fmt::join(kinds | std::views::transform(&KindTraits::name), " or ")));
  model.kind = static_cast<ModelKind>(found - kinds.begin());
  const HfKind& kind = hf_kind(model.kind);
  const char* const own = kind.activations.front();
  if (std::ranges::count(kind.activations, fields.get<std::string>(kind.activation, own)) == 0)
    fields.refuse(kind.activation, fmt::format("Troupe does not compute this; expected {}", own));
  for (const ModelField& field : kind.fields) read_field(field, fields, kind.defaults, model);
  kind.read_rest(fields, kind, model);
  read_layer_fields(fields, model);
  return model;
}

/// Whether what is on top of the decoder is a value of each token rather than logits of the next.
bool has_value_head(ConfigFields& fields, const KindTraits& traits) {
  const json& names = fields.value(kArchitectures);
  const std::string causal = traits.architecture;
  const json first = names.is_array() && !names.empty() ? names.front() : json(causal);
  if (first == causal) return false;
  if (first == kTokenClassifier && traits.allows_value_head) return true;
  fields.refuse(kArchitectures, traits.allows_value_head
                                    ? fmt::format("expected {} or {}", causal, kTokenClassifier)
                                    : fmt::format("expected {}", causal));
}

/// Sets the head of a LlamaForTokenClassification, which must have one label.
void read_value_head(ConfigFields& fields, ModelConfig& model) {
  constexpr std::int64_t kDefaultLabels = 2;
  const json& names = fields.value("id2label");
  const auto labels = fields.get<std::int64_t>(
      kLabels, names.is_object() ? static_cast<std::int64_t>(names.size()) : kDefaultLabels);
  if (labels != 1)
    fields.refuse(kLabels,
                  fmt::format("{} labels; Troupe computes one value of each token", labels));
  model.value_head = true;
  model.value_head_bias = fields.get("token_classification_bias", true);
  model.tie_word_embeddings = false;  // there is nothing to tie
}

void set_dtype(nlohmann::ordered_json& config, std::string_view dtype) {
  config[config.contains("torch_dtype") && !config.contains("dtype") ? "torch_dtype" : "dtype"] =
      dtype;
}

}  // namespace

HfConfig read_hf_config(const std::filesystem::path& path) {
  const json config = read_json_file(path);
  ConfigFields fields(config, path.string());
  HfConfig read{.model = read_kind(fields), .unused = {}};
  if (has_value_head(fields, traits_of(read.model.kind))) read_value_head(fields, read.model);
  fields.refuse_unsupported();
  if (!fields.get("is_causal", true))
    fields.refuse("is_causal", "Troupe's tokens see none of those behind them; expected true");
  read.model.initializer_range = fields.get("initializer_range", 0.02);
  read.unused = fields.unused();
  if (const auto fault = check_model(read.model); !fault.empty())
    throw data_error("{}: {}", path.string(), fault.sentence);
  return read;
}

std::string to_hf_config(const ModelConfig& model) {
  const HfKind& kind = hf_kind(model.kind);
  json config = {
      {kModelType, name_of(model.kind)},
      {kArchitectures, {traits_of(model.kind).architecture}},
      {kind.activation, kind.activations.front()},
      {"initializer_range", model.initializer_range},
      {"bos_token_id", nullptr},  // no sample begins or ends with a special token
      {"eos_token_id", nullptr},
      {"pad_token_id", nullptr},
      {"torch_dtype", "float32"},
      {"use_cache", true},
  };
  for (const ModelField& field : kind.fields) write_field(field, model, config);
  config.update(kind.rest_of(model));
  config.update(layer_fields_of(model));
  return config.dump(2) + '\n';
}

std::string trained_hf_config(const std::string& text, const ModelConfig& model) {
  auto config = nlohmann::ordered_json::parse(text);  // its fields in their order
  set_dtype(config, "float32");
  config["initializer_range"] = model.initializer_range;
  for (const ModelField& field : hf_kind(model.kind).fields)
    if (const auto* of = std::get_if<FieldMember<double>>(&field.member))
      if (of->at == &ModelConfig::attention_dropout || of->at == &ModelConfig::hidden_dropout)
        write_field(field, model, config);
  write_balance(model, config);
  return config.dump(2) + '\n';
}

std::string with_dtype(const std::string& text, std::string_view dtype) {
  auto config = nlohmann::ordered_json::parse(text);  // its fields in their order
  set_dtype(config, dtype);
  return config.dump(2) + '\n';
}

}  // namespace troupe::stages
