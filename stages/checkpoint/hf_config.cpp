#include "stages/checkpoint/hf_config.h"

#include <fmt/format.h>

#include <algorithm>

#include "stages/checkpoint/json_file.h"
#include "tensor/error.h"

namespace troupe::stages {
namespace {

constexpr const char* kModelType = "model_type";
constexpr const char* kPositions = "max_position_embeddings";
constexpr const char* kRopeScaling = "rope_scaling";
constexpr const char* kRopeType = "rope_type";
constexpr const char* kOriginalPositions = "original_max_position_embeddings";
constexpr const char* kTruncate = "truncate";

/// rope_scaling of transformers 4: the fields that the type reads, but theta.
nlohmann::json rope_scaling_of(const tensor::Rotary& rotary) {
  using tensor::RotaryType;
  if (rotary.type == RotaryType::standard) return nullptr;
  nlohmann::json scaling = {{kRopeType, tensor::name_of(rotary.type)}};
  for (const auto& [name, member] : tensor::kRotaryNumbers)
    if (tensor::reads(rotary.type, name) && rotary.*member != 0)  // 0: not given
      scaling[std::string(name)] = rotary.*member;
  // Dynamic takes max_position_embeddings, which is the same.
  if (rotary.type == RotaryType::yarn || rotary.type == RotaryType::llama3)
    scaling[kOriginalPositions] = rotary.original_max_position_embeddings;
  if (rotary.type == RotaryType::yarn) scaling[kTruncate] = rotary.truncate;
  return scaling;
}

tensor::Rotary read_rotary(const nlohmann::json& config, const std::filesystem::path& path) {
  using tensor::RotaryType;
  tensor::Rotary rotary{.theta = get_number(config, "rope_theta", path)};
  const auto found = config.find(kRopeScaling);
  if (found == config.end() || found->is_null()) return rotary;
  const std::string type = get_string(*found, kRopeType, path);
  if (!tensor::find_rotary_type(type, rotary.type))
    throw Error(ErrorKind::data, fmt::format("{}: {} is {}, expected default, linear, dynamic, "
                                             "yarn or llama3",
                                             path.string(), kRopeType, type));
  for (const auto& [name, member] : tensor::kRotaryNumbers)
    if (tensor::reads(rotary.type, name) && found->contains(name))
      rotary.*member = get_number(*found, std::string(name).c_str(), path);
  if (tensor::reads(rotary.type, kOriginalPositions))
    rotary.original_max_position_embeddings = rotary.type == RotaryType::dynamic
                                                  ? get_integer(config, kPositions, path)
                                                  : get_integer(*found, kOriginalPositions, path);
  if (rotary.type == RotaryType::yarn) rotary.truncate = get_bool(*found, kTruncate, path);
  return rotary;
}

/// What LlamaForCausalLM has, with the rope keys of transformers 4.
nlohmann::json llama_config(const ModelConfig& model) {
  return {
      {"architectures", {"LlamaForCausalLM"}},
      {"hidden_size", model.hidden_size},
      {"intermediate_size", model.intermediate_size},
      {"num_hidden_layers", model.num_hidden_layers},
      {"num_attention_heads", model.num_attention_heads},
      {"num_key_value_heads", model.num_key_value_heads},
      {"head_dim", model.head_dim},
      {"hidden_act", "silu"},
      {"rms_norm_eps", model.rms_norm_eps},
      {"rope_theta", model.rotary.theta},
      {kRopeScaling, rope_scaling_of(model.rotary)},
      {kPositions, model.max_position_embeddings},
      {"attention_bias", model.attention_bias},
      {"attention_dropout", model.attention_dropout},
      {"mlp_bias", model.mlp_bias},
      {"pretraining_tp", 1},
  };
}

/// What GPT2LMHeadModel has.
nlohmann::json gpt2_config(const ModelConfig& model) {
  return {
      {"architectures", {"GPT2LMHeadModel"}},
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

ModelConfig read_llama(const nlohmann::json& config, const std::filesystem::path& path) {
  const auto integer = [&](const char* name) { return get_integer(config, name, path); };
  return {
      .hidden_size = integer("hidden_size"),
      .intermediate_size = integer("intermediate_size"),
      .num_hidden_layers = integer("num_hidden_layers"),
      .num_attention_heads = integer("num_attention_heads"),
      .num_key_value_heads = integer("num_key_value_heads"),
      .head_dim = integer("head_dim"),
      .rms_norm_eps = get_number(config, "rms_norm_eps", path),
      .rotary = read_rotary(config, path),
      .attention_bias = get_bool(config, "attention_bias", path),
      .mlp_bias = get_bool(config, "mlp_bias", path),
      .max_position_embeddings = integer(kPositions),
  };
}

ModelConfig read_gpt2(const nlohmann::json& config, const std::filesystem::path& path) {
  const auto integer = [&](const char* name) { return get_integer(config, name, path); };
  ModelConfig model{
      .kind = ModelKind::gpt2,
      .hidden_size = integer("n_embd"),
      .intermediate_size = integer("n_inner"),
      .num_hidden_layers = integer("n_layer"),
      .num_attention_heads = integer("n_head"),
      .layer_norm_epsilon = get_number(config, "layer_norm_epsilon", path),
      .max_position_embeddings = integer("n_positions"),
  };
  model.num_key_value_heads = model.num_attention_heads;
  // No number of heads below 1 passes check_model.
  model.head_dim = model.hidden_size / std::max<std::int64_t>(1, model.num_attention_heads);
  return model;
}

}  // namespace

std::string to_hf_config(const ModelConfig& model) {
  nlohmann::json config = model.kind == ModelKind::gpt2 ? gpt2_config(model) : llama_config(model);
  const nlohmann::json common = {
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

ModelConfig read_hf_config(const std::filesystem::path& path) {
  const nlohmann::json config = read_json_file(path);
  const std::string type = get_string(config, kModelType, path);
  ModelConfig model;
  if (type == name_of(ModelKind::llama))
    model = read_llama(config, path);
  else if (type == name_of(ModelKind::gpt2))
    model = read_gpt2(config, path);
  else
    throw Error(ErrorKind::data, fmt::format("{}: {} is {}, expected llama or gpt2", path.string(),
                                             kModelType, type));
  model.vocab_size = get_integer(config, "vocab_size", path);
  model.tie_word_embeddings = get_bool(config, "tie_word_embeddings", path);
  model.initializer_range = get_number(config, "initializer_range", path);
  if (const std::string problem = check_model(model); !problem.empty())
    throw Error(ErrorKind::data, fmt::format("{}: {}", path.string(), problem));
  return model;
}

}  // namespace troupe::stages
