#include "stages/checkpoint/hf_config.h"

#include <fmt/format.h>

#include "stages/checkpoint/json_file.h"
#include "tensor/error.h"

namespace troupe::stages {
namespace {

constexpr const char* kModelType = "llama";

}  // namespace

std::string to_hf_config(const ModelConfig& model, std::int64_t seq_len) {
  const nlohmann::json config = {
      {"architectures", {"LlamaForCausalLM"}},
      {"model_type", kModelType},
      {"vocab_size", model.vocab_size},
      {"hidden_size", model.hidden_size},
      {"intermediate_size", model.intermediate_size},
      {"num_hidden_layers", model.num_hidden_layers},
      {"num_attention_heads", model.num_attention_heads},
      {"num_key_value_heads", model.num_key_value_heads},
      {"head_dim", model.head_dim},
      {"hidden_act", "silu"},
      {"rms_norm_eps", model.rms_norm_eps},
      {"rope_theta", model.rope_theta},
      {"rope_scaling", nullptr},
      {"max_position_embeddings", seq_len},
      {"tie_word_embeddings", model.tie_word_embeddings},
      {"initializer_range", model.initializer_range},
      {"attention_bias", false},
      {"attention_dropout", 0.0},
      {"mlp_bias", false},
      {"pretraining_tp", 1},
      {"bos_token_id", nullptr},  // no sample begins or ends with a special token
      {"eos_token_id", nullptr},
      {"pad_token_id", nullptr},
      {"torch_dtype", "float32"},
      {"use_cache", true},
  };
  return config.dump(2) + '\n';
}

ModelConfig read_hf_config(const std::filesystem::path& path) {
  const nlohmann::json config = read_json_file(path);
  if (const std::string type = get_string(config, "model_type", path); type != kModelType)
    throw Error(ErrorKind::data,
                fmt::format("{}: model_type is {}, expected {}", path.string(), type, kModelType));
  const auto integer = [&](const char* name) { return get_integer(config, name, path); };
  const auto number = [&](const char* name) { return get_number(config, name, path); };
  const ModelConfig model{
      .hidden_size = integer("hidden_size"),
      .intermediate_size = integer("intermediate_size"),
      .num_hidden_layers = integer("num_hidden_layers"),
      .num_attention_heads = integer("num_attention_heads"),
      .num_key_value_heads = integer("num_key_value_heads"),
      .head_dim = integer("head_dim"),
      .vocab_size = integer("vocab_size"),
      .rms_norm_eps = number("rms_norm_eps"),
      .rope_theta = number("rope_theta"),
      .tie_word_embeddings = get_bool(config, "tie_word_embeddings", path),
      .initializer_range = number("initializer_range"),
  };
  if (const std::string problem = check_model(model); !problem.empty())
    throw Error(ErrorKind::data, fmt::format("{}: {}", path.string(), problem));
  return model;
}

}  // namespace troupe::stages
