#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "stages/files/hugging_face/config_fields.h"
#include "stages/model/model_config.h"

// The fields of a config.json that most kinds do not have: windows, soft caps, multipliers, layers
// that differ. They are a part of a config.json, and all of model.config of a manifest.

namespace troupe::stages {

/// Sets the members for which the kind has such fields, those of transformers' defaults that are
/// missing; the other members of the model are known. layer_types stays empty if it says what holds
/// without it. Throws Error{data} naming file and field for a value without a meaning.
void read_layer_fields(ConfigFields& fields, ModelConfig& model);
/// The fields of a config.json that read_layer_fields() reads.
nlohmann::json layer_fields_of(const ModelConfig& model);

/// layer_fields_of() as JSON in one line, with what is in a config.json's object of the rotary
/// embedding and has no key in a manifest (partial_rotary_factor, short_factor, long_factor,
/// rope_local_base_freq); an empty text if the kind has no such fields.
std::string layer_text_of(const ModelConfig& model);
/// Reads what layer_text_of() wrote, or a user; missing fields have transformers' defaults. Throws
/// Error{data} for a text that is no such object, and for fields that the kind does not have.
void read_layer_text(const std::string& text, ModelConfig& model);

}  // namespace troupe::stages
