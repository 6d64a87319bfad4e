#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>

#include "stages/files/hugging_face/hf_kinds.h"

// What the config.json of every kind but GPT-2 has of heads and positions.

namespace troupe::stages {

/// hidden_size / heads.
std::int64_t default_head_dim(const ModelConfig& model);
/// HfKind::read_rest of num_key_value_heads, head_dim and the rotary embedding; HfKind::rest_of of
/// them, with the rope keys of transformers 4.
void read_decoder_rest(ConfigFields& fields, const HfKind& kind, ModelConfig& model);
nlohmann::json decoder_rest(const ModelConfig& model);

}  // namespace troupe::stages
