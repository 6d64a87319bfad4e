#pragma once

#include "launch/manifest/toml/manifest.h"
#include "tensor/rotary.h"

// The keys of the rotary embedding: model.rope_theta, model.rope_type and those of one type alone.

namespace troupe::launch {

/// Gives keys that were left out their values. Requires model.max_position_embeddings.
void resolve_rotary(Manifest& manifest);

/// Throws Error{manifest} for a key that the type does not read, and for one that it needs.
void check_rotary(const Manifest& manifest);

/// The embedding that a resolved manifest describes; of a model that has one.
tensor::Rotary rotary_of(const Manifest& manifest);

}  // namespace troupe::launch
