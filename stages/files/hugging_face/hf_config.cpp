#include "stages/files/hugging_face/hf_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <ranges>
#include <span>
#include <type_traits>
#include <variant>

#include "stages/files/hugging_face/config_fields.h"
#include "stages/files/hugging_face/rope_config.h"
#include "stages/storage/data_error.h"
#include "tensor/errors/error.h"

namespace troupe::stages {
namespace {

using nlohmann::json;

constexpr const char* kModelType = "model_type";
constexpr const char* kArchitectures = "architectures";
constexpr const char* kTokenClassifier = "LlamaForTokenClassification";
constexpr const char* kLabels = "num_labels";
constexpr const char* kPositions = "max_position_embeddings";
constexpr const char* kTied = "tie_word_embeddings";

using M = ModelConfig;

/// A member of the model that is a field of a config.json, and transformers' default of it.
template <typename T>
struct Member {
  T M::*at;
  std::type_identity_t<T> fallback;
};
struct ModelField {
  const char* name;
  std::variant<Member<std::int64_t>, Member<double>, Member<bool>> member;
  const char* alias = nullptr;  ///< the name that other models have for it; where given, it counts
};

/// How transformers describes the models of a kind.
struct HfKind {
  std::span<const ModelField> fields;
  const char* activation;
  /// The names under which transformers has the kind's activation; new files have the first.
  std::span<const char* const> activations;
  /// What depends on other fields, and back, with fields that are the same for every model.
  void (*read_rest)(ConfigFields& fields, ModelConfig& model);
  json (*rest_of)(const ModelConfig& model);
};

// No number of heads below 1 passes check_model.
std::int64_t default_head_dim(const ModelConfig& model) {
  return model.hidden_size / std::max<std::int64_t>(1, model.num_attention_heads);
}

constexpr const char* kSilu[]{"silu", "swish"};
constexpr ModelField kLlamaFields[]{{"hidden_size", Member{&M::hidden_size, 4096}},
                                    {"intermediate_size", Member{&M::intermediate_size, 11008}},
                                    {"num_hidden_layers", Member{&M::num_hidden_layers, 32}},
                                    {"num_attention_heads", Member{&M::num_attention_heads, 32}},
                                    {"rms_norm_eps", Member{&M::rms_norm_eps, 1e-6}},
                                    {"attention_bias", Member{&M::attention_bias, false}},
                                    {"mlp_bias", Member{&M::mlp_bias, false}},
                                    {kPositions, Member{&M::max_position_embeddings, 2048}},
                                    {"attention_dropout", Member{&M::attention_dropout, 0}},
                                    {"vocab_size", Member{&M::vocab_size, 32000}},
                                    {kTied, Member{&M::tie_word_embeddings, false}}};

void read_llama_rest(ConfigFields& fields, ModelConfig& model) {
  model.rotary = read_rope(fields, model.max_position_embeddings);
  model.num_key_value_heads =
      fields.find<std::int64_t>("num_key_value_heads").value_or(model.num_attention_heads);
  model.head_dim = fields.find<std::int64_t>("head_dim").value_or(default_head_dim(model));
}

/// With the rope keys of transformers 4.
json llama_rest(const ModelConfig& model) {
  return {{"num_key_value_heads", model.num_key_value_heads},
          {"head_dim", model.head_dim},
          {"rope_theta", model.rotary.theta},
          {"rope_scaling", rope_scaling_of(model.rotary)},
          {"pretraining_tp", 1}};
}

// Names of one function, the tanh form of GELU.
constexpr const char* kGelu[]{"gelu_new", "gelu_pytorch_tanh", "gelu_fast"};
constexpr ModelField kGpt2Fields[]{
    {"n_embd", Member{&M::hidden_size, 768}, "hidden_size"},
    {"n_layer", Member{&M::num_hidden_layers, 12}, "num_hidden_layers"},
    {"n_head", Member{&M::num_attention_heads, 12}, "num_attention_heads"},
    {"layer_norm_epsilon", Member{&M::layer_norm_epsilon, 1e-5}},
    {"n_positions", Member{&M::max_position_embeddings, 1024}, kPositions},
    {"attn_pdrop", Member{&M::attention_dropout, 0.1}},
    {"resid_pdrop", Member{&M::hidden_dropout, 0.1}},
    {"embd_pdrop", Member{&M::hidden_dropout, 0.1}},
    {"vocab_size", Member{&M::vocab_size, 50257}},
    {kTied, Member{&M::tie_word_embeddings, true}}};

void read_gpt2_rest(ConfigFields& fields, ModelConfig& model) {
  if (model.hidden_dropout != fields.get("resid_pdrop", 0.1))
    fields.refuse("embd_pdrop",
                  "Troupe has one probability for embd_pdrop and resid_pdrop; give "
                  "both the same");
  model.intermediate_size = fields.find<std::int64_t>("n_inner").value_or(4 * model.hidden_size);
  model.num_key_value_heads = model.num_attention_heads;
  model.head_dim = default_head_dim(model);
}

json gpt2_rest(const ModelConfig& model) {
  return {{"n_inner", model.intermediate_size},
          {"scale_attn_weights", true},
          {"scale_attn_by_inverse_layer_idx", false},
          {"reorder_and_upcast_attn", false}};
}

const HfKind& hf_kind(ModelKind kind) {
  static constexpr HfKind kKinds[]{
      {kLlamaFields, "hidden_act", kSilu, read_llama_rest, llama_rest},
      {kGpt2Fields, "activation_function", kGelu, read_gpt2_rest, gpt2_rest}};
  TROUPE_ASSERT(std::size(kKinds) == model_kinds().size());
  return kKinds[static_cast<std::size_t>(kind)];
}

void read_field(const ModelField& field, ConfigFields& fields, ModelConfig& model) {
  const auto read = [&](const auto& member) {
    auto& value = model.*member.at = fields.get(field.name, member.fallback);
    if (field.alias) value = fields.get(field.alias, value);
  };
  std::visit(read, field.member);
}

template <typename Json>
void write_field(const ModelField& field, const ModelConfig& model, Json& config) {
  std::visit([&](const auto& member) { config[field.name] = model.*member.at; }, field.member);
}

ModelConfig read_kind(ConfigFields& fields) {
  ModelConfig model;
  const auto type = fields.get<std::string>(kModelType, "");
  const auto kinds = model_kinds();
  const auto found = std::ranges::find(kinds, type, &KindTraits::name);
  if (found == kinds.end())
    fields.refuse(kModelType,
                  fmt::format("expected {}",
                              fmt::join(kinds | std::views::transform(&KindTraits::name), " or ")));
  model.kind = static_cast<ModelKind>(found - kinds.begin());
  const HfKind& kind = hf_kind(model.kind);
  const char* const own = kind.activations.front();
  if (std::ranges::count(kind.activations, fields.get<std::string>(kind.activation, own)) == 0)
    fields.refuse(kind.activation, fmt::format("Troupe does not compute this; expected {}", own));
  for (const ModelField& field : kind.fields) read_field(field, fields, model);
  kind.read_rest(fields, model);
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
  return config.dump(2) + '\n';
}

std::string trained_hf_config(const std::string& text, const ModelConfig& model) {
  auto config = nlohmann::ordered_json::parse(text);  // its fields in their order
  set_dtype(config, "float32");
  config["initializer_range"] = model.initializer_range;
  for (const ModelField& field : hf_kind(model.kind).fields)
    if (const auto* of = std::get_if<Member<double>>(&field.member))
      if (of->at == &M::attention_dropout || of->at == &M::hidden_dropout)
        write_field(field, model, config);
  return config.dump(2) + '\n';
}

std::string with_dtype(const std::string& text, std::string_view dtype) {
  auto config = nlohmann::ordered_json::parse(text);  // its fields in their order
  set_dtype(config, dtype);
  return config.dump(2) + '\n';
}

}  // namespace troupe::stages
