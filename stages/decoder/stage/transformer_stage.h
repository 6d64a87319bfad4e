#pragma once

#include <memory>

#include "stages/stage/stage_spec.h"

namespace troupe::stages {

/// The memory that a stage would take. Prepares the device's products to learn how much they need,
/// but allocates none of it.
StageMemory plan_memory(const StageSpec& spec, tensor::Device& device);
struct ParameterLayout;
/// Sets what depends on the slice of the training state that a replica keeps, which its layout
/// says: all but activations and packed.
void plan_state(const StageSpec& spec, const ParameterLayout& layout, StageMemory& memory);

/// A decoder's stage. Weights are zero until written through parameters() (initialize() or a
/// checkpoint). The device outlives the stage; the caller is, or becomes, its compute thread.
std::unique_ptr<Stage> make_transformer_stage(const StageSpec& spec, tensor::Device& device);

/// Weights of a fresh model as ModelConfig::initializer says: pure functions of (seed, name, index
/// in the whole parameter). The stage's weights must lie in host memory.
void initialize(Stage& stage, const ModelConfig& model, std::uint64_t seed, int threads);

}  // namespace troupe::stages
