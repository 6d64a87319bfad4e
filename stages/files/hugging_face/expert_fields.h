#pragma once

#include <nlohmann/json.hpp>

#include "stages/files/hugging_face/config_fields.h"
#include "stages/model/model_config.h"

// The fields of a config.json about experts. transformers 5 has num_local_experts for the number
// that 4 called num_experts in some kinds; both are read.

namespace troupe::stages {

/// Sets ModelConfig::experts but for the layers that have them. Where a field is missing they are
/// as in `defaults`. The loss for their balance is that of router_aux_loss_coef if
/// output_router_logits is true, else none, as in transformers. Throws Error{data} naming file and
/// field.
void read_expert_fields(ConfigFields& fields, const ModelConfig& defaults, ModelConfig& model);
nlohmann::json expert_fields_of(const ModelConfig& model);
/// Lets a config.json say how the model was balanced, if it says otherwise.
void write_balance(const ModelConfig& model, nlohmann::ordered_json& config);

/// Sets which layers have experts, by mlp_only_layers and decoder_sparse_step.
void read_routed_layers(ConfigFields& fields, ModelConfig& model);
/// Both fields.
nlohmann::json routed_layers_of(const ModelConfig& model);

}  // namespace troupe::stages
