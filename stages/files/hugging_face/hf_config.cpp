#include "stages/files/hugging_face/hf_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "stages/files/hugging_face/config_fields.h"
#include "stages/files/hugging_face/rope_config.h"
#include "stages/files/safetensors/json_file.h"
#include "tensor/error.h"

namespace troupe::stages {
namespace {

using nlohmann::json;

constexpr const char* kModelType = "model_type";
constexpr const char* kArchitectures = "architectures";
constexpr const char* kTokenClassifier = "LlamaForTokenClassification";
constexpr const char* kLabels = "num_labels";
constexpr const char* kPositions = "max_position_embeddings";

/// The names under which transformers has an activation function that is the model's.
template <std::size_t n>
void check_activation(ConfigFields& fields, const char* name,
                      const std::array<const char*, n>& same) {
  const std::string activation = fields.text(name, same.front());
  if (std::ranges::find(same, activation) == same.end())
    fields.refuse(name, fmt::format("Troupe does not compute this; expected {}", same.front()));
}

ModelConfig read_llama(ConfigFields& fields) {
  check_activation(fields, "hidden_act", std::array{"silu", "swish"});
  ModelConfig model{
      .hidden_size = fields.integer("hidden_size", 4096),
      .intermediate_size = fields.integer("intermediate_size", 11008),
      .num_hidden_layers = fields.integer("num_hidden_layers", 32),
      .num_attention_heads = fields.integer("num_attention_heads", 32),
      .rms_norm_eps = fields.number("rms_norm_eps", 1e-6),
      .attention_bias = fields.flag("attention_bias", false),
      .mlp_bias = fields.flag("mlp_bias", false),
      .max_position_embeddings = fields.integer(kPositions, 2048),
      .attention_dropout = fields.number("attention_dropout", 0.0),
  };
  model.vocab_size = fields.integer("vocab_size", 32000);
  model.tie_word_embeddings = fields.flag("tie_word_embeddings", false);
  model.rotary = read_rope(fields, model.max_position_embeddings);
  model.num_key_value_heads =
      fields.optional_integer("num_key_value_heads").value_or(model.num_attention_heads);
  // No number of heads below 1 passes check_model.
  const std::int64_t heads = std::max<std::int64_t>(1, model.num_attention_heads);
  model.head_dim = fields.optional_integer("head_dim").value_or(model.hidden_size / heads);
  return model;
}

/// The probability of both dropouts around the residual stream.
double residual_dropout(ConfigFields& fields) {
  const double embedding = fields.number("embd_pdrop", 0.1);
  if (embedding != fields.number("resid_pdrop", 0.1))
    fields.refuse("embd_pdrop",
                  "Troupe has one probability for embd_pdrop and resid_pdrop; give "
                  "both the same");
  return embedding;
}

/// A field that transformers also takes by the name that other models have, which then counts.
std::int64_t aliased(ConfigFields& fields, const char* name, const char* alias,
                     std::int64_t fallback) {
  const std::int64_t own = fields.integer(name, fallback);
  return fields.integer(alias, own);
}

ModelConfig read_gpt2(ConfigFields& fields) {
  // Three names of one function, the tanh form of GELU.
  check_activation(fields, "activation_function",
                   std::array{"gelu_new", "gelu_pytorch_tanh", "gelu_fast"});
  ModelConfig model{
      .kind = ModelKind::gpt2,
      .hidden_size = aliased(fields, "n_embd", "hidden_size", 768),
      .num_hidden_layers = aliased(fields, "n_layer", "num_hidden_layers", 12),
      .num_attention_heads = aliased(fields, "n_head", "num_attention_heads", 12),
      .layer_norm_epsilon = fields.number("layer_norm_epsilon", 1e-5),
      .max_position_embeddings = aliased(fields, "n_positions", kPositions, 1024),
      .hidden_dropout = residual_dropout(fields),
      .attention_dropout = fields.number("attn_pdrop", 0.1),
  };
  model.vocab_size = fields.integer("vocab_size", 50257);
  model.tie_word_embeddings = fields.flag("tie_word_embeddings", true);
  model.intermediate_size = fields.optional_integer("n_inner").value_or(4 * model.hidden_size);
  model.num_key_value_heads = model.num_attention_heads;
  // No number of heads below 1 passes check_model.
  model.head_dim = model.hidden_size / std::max<std::int64_t>(1, model.num_attention_heads);
  return model;
}

ModelConfig read_kind(ConfigFields& fields) {
  const std::string type = fields.text(kModelType, "");
  if (type == name_of(ModelKind::llama)) return read_llama(fields);
  if (type == name_of(ModelKind::gpt2)) return read_gpt2(fields);
  fields.refuse(kModelType, "expected llama or gpt2");
}

/// Whether what is on top of the decoder is a value of each token rather than logits of the next.
bool has_value_head(ConfigFields& fields, ModelKind kind) {
  const json& names = fields.value(kArchitectures);
  const bool is_llama = kind == ModelKind::llama;
  const std::string causal = is_llama ? "LlamaForCausalLM" : "GPT2LMHeadModel";
  const json first = names.is_array() && !names.empty() ? names.front() : json(causal);
  if (first == causal) return false;
  if (first == kTokenClassifier && is_llama) return true;
  fields.refuse(kArchitectures, is_llama
                                    ? fmt::format("expected {} or {}", causal, kTokenClassifier)
                                    : fmt::format("expected {}", causal));
}

/// Sets the head of a LlamaForTokenClassification, which must have one label.
void read_value_head(ConfigFields& fields, ModelConfig& model) {
  constexpr std::int64_t kDefaultLabels = 2;
  const json& names = fields.value("id2label");
  const std::int64_t labels = fields.integer(
      kLabels, names.is_object() ? static_cast<std::int64_t>(names.size()) : kDefaultLabels);
  if (labels != 1)
    fields.refuse(kLabels,
                  fmt::format("{} labels; Troupe computes one value of each token", labels));
  model.value_head = true;
  model.value_head_bias = fields.flag("token_classification_bias", true);
  model.tie_word_embeddings = false;  // there is nothing to tie
}

/// What LlamaForCausalLM has, with the rope keys of transformers 4.
json llama_config(const ModelConfig& model) {
  return {
      {kArchitectures, {"LlamaForCausalLM"}},
      {"hidden_size", model.hidden_size},
      {"intermediate_size", model.intermediate_size},
      {"num_hidden_layers", model.num_hidden_layers},
      {"num_attention_heads", model.num_attention_heads},
      {"num_key_value_heads", model.num_key_value_heads},
      {"head_dim", model.head_dim},
      {"hidden_act", "silu"},
      {"rms_norm_eps", model.rms_norm_eps},
      {"rope_theta", model.rotary.theta},
      {"rope_scaling", rope_scaling_of(model.rotary)},
      {kPositions, model.max_position_embeddings},
      {"attention_bias", model.attention_bias},
      {"attention_dropout", model.attention_dropout},
      {"mlp_bias", model.mlp_bias},
      {"pretraining_tp", 1},
  };
}

/// What GPT2LMHeadModel has.
json gpt2_config(const ModelConfig& model) {
  return {
      {kArchitectures, {"GPT2LMHeadModel"}},
      {"n_embd", model.hidden_size},
      {"n_inner", model.intermediate_size},
      {"n_layer", model.num_hidden_layers},
      {"n_head", model.num_attention_heads},
      {"n_positions", model.max_position_embeddings},
      {"activation_function", "gelu_new"},
      {"layer_norm_epsilon", model.layer_norm_epsilon},
      {"scale_attn_weights", true},
      {"scale_attn_by_inverse_layer_idx", false},
      {"reorder_and_upcast_attn", false},
      {"embd_pdrop", model.hidden_dropout},
      {"attn_pdrop", model.attention_dropout},
      {"resid_pdrop", model.hidden_dropout},
  };
}

/// A text that was read as a config.json before, its fields in their order.
nlohmann::ordered_json parsed(const std::string& text) {
  return nlohmann::ordered_json::parse(text);
}

std::string text_of(const nlohmann::ordered_json& config) {
  return config.dump(2) + '\n';
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
  if (has_value_head(fields, read.model.kind)) read_value_head(fields, read.model);
  fields.refuse_unsupported();
  if (!fields.flag("is_causal", true))
    fields.refuse("is_causal", "Troupe's tokens see none of those behind them; expected true");
  read.model.initializer_range = fields.number("initializer_range", 0.02);
  read.unused = fields.unused();
  if (const std::string problem = check_model(read.model); !problem.empty())
    throw Error(ErrorKind::data, fmt::format("{}: {}", path.string(), problem));
  return read;
}

std::string to_hf_config(const ModelConfig& model) {
  json config = model.kind == ModelKind::gpt2 ? gpt2_config(model) : llama_config(model);
  const json common = {
      {kModelType, name_of(model.kind)},
      {"vocab_size", model.vocab_size},
      {"tie_word_embeddings", model.tie_word_embeddings},
      {"initializer_range", model.initializer_range},
      {"bos_token_id", nullptr},  // no sample begins or ends with a special token
      {"eos_token_id", nullptr},
      {"pad_token_id", nullptr},
      {"torch_dtype", "float32"},
      {"use_cache", true},
  };
  config.update(common);
  return config.dump(2) + '\n';
}

std::string trained_hf_config(const std::string& text, const ModelConfig& model) {
  auto config = parsed(text);
  set_dtype(config, "float32");
  config["initializer_range"] = model.initializer_range;
  if (model.kind == ModelKind::llama) {
    config["attention_dropout"] = model.attention_dropout;
  } else {
    config["attn_pdrop"] = model.attention_dropout;
    config["embd_pdrop"] = config["resid_pdrop"] = model.hidden_dropout;
  }
  return text_of(config);
}

std::string with_dtype(const std::string& text, std::string_view dtype) {
  auto config = parsed(text);
  set_dtype(config, dtype);
  return text_of(config);
}

}  // namespace troupe::stages
