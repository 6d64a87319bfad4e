#pragma once

#include "stages/files/hugging_face/config_fields.h"
#include "tensor/device/rotary.h"

namespace troupe::stages {

/// The rotary embedding of a config.json, in the spelling of transformers 5 (rope_parameters) or 4
/// (rope_theta and rope_scaling, in which older versions say type for rope_type). A rope_scaling
/// that is not empty counts before rope_parameters, theta in the object before the one beside it,
/// but original_max_position_embeddings beside the object before the one in it, as in
/// transformers. Throws Error{data} naming file and field for a type that is not known, a
/// number that a type lacks, and rotation of a part of each head.
tensor::Rotary read_rope(ConfigFields& fields, std::int64_t max_position_embeddings);

/// rope_scaling of transformers 4: the fields that the type reads, but theta; null if it is the
/// default.
nlohmann::json rope_scaling_of(const tensor::Rotary& rotary);

}  // namespace troupe::stages
