#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>

#include "stages/files/hugging_face/config_fields.h"
#include "stages/model/model_config.h"
#include "tensor/device/rotary.h"

namespace troupe::stages {

/// What transformers does otherwise with the rotary embedding of some kinds.
struct RopeRules {
  bool turns_parts = false;   ///< partial_rotary_factor
  std::int64_t original = 0;  ///< original_max_position_embeddings beside the object if missing
  bool is_by_layer = false;   ///< layers with a window have another one
};

/// Sets the rotary embedding of a config.json, in the spelling of transformers 5 (rope_parameters)
/// or 4 (rope_theta and rope_scaling, in which older versions say type for rope_type). A
/// rope_scaling that is not empty counts before rope_parameters, theta in the object before the one
/// beside it, but original_max_position_embeddings beside the object before the one in it, as in
/// transformers. What is missing is as in `defaults`. Throws Error{data} naming file and field for
/// a type that is not known, a number that a type lacks, and what the rules do not allow. Reads
/// head_dim and max_position_embeddings of the model.
void read_rope(ConfigFields& fields, const RopeRules& rules, const ModelConfig& defaults,
               ModelConfig& model);

/// The fields for it in the spelling of transformers 4, which both versions read: rope_theta,
/// rope_scaling with what the type reads, null if it is the default, and what the rules allow.
nlohmann::json rope_fields_of(const ModelConfig& model, const RopeRules& rules);

/// partial_rotary_factor, and the factors of longrope: members that no key of a manifest sets.
void read_rope_parts(ConfigFields& rope, const ModelConfig& model, tensor::Rotary& rotary);
nlohmann::json rope_parts_of(const ModelConfig& model);

}  // namespace troupe::stages
