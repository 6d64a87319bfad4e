#include "stages/files/hugging_face/decoder_fields.h"

#include <algorithm>

#include "stages/files/hugging_face/rope_config.h"

namespace troupe::stages {

using nlohmann::json;

// No number of heads below 1 passes check_model.
std::int64_t default_head_dim(const ModelConfig& model) {
  return model.hidden_size / std::max<std::int64_t>(1, model.num_attention_heads);
}

void read_decoder_rest(ConfigFields& fields, const HfKind& kind, ModelConfig& model) {
  const auto or_else = [](std::int64_t number, std::int64_t otherwise) {
    return number > 0 ? number : otherwise;
  };
  // Null stands for what follows from other fields, also where the default is a number.
  constexpr const char* kKeys = "num_key_value_heads";
  constexpr const char* kWidth = "head_dim";
  model.num_key_value_heads =
      fields
          .get_or_null<std::int64_t>(
              kKeys, or_else(kind.defaults.num_key_value_heads, model.num_attention_heads))
          .value_or(model.num_attention_heads);
  model.head_dim = fields
                       .get_or_null<std::int64_t>(
                           kWidth, or_else(kind.defaults.head_dim, default_head_dim(model)))
                       .value_or(default_head_dim(model));
  read_rope(fields, kind.rope, kind.defaults, model);
}

json decoder_rest(const ModelConfig& model) {
  json rest = rope_fields_of(model, hf_kind(model.kind).rope);
  rest.update({{"num_key_value_heads", model.num_key_value_heads}, {"head_dim", model.head_dim}});
  return rest;
}

}  // namespace troupe::stages
