#pragma once

#include "launch/manifest/toml/manifest.h"

namespace troupe::launch {

/// The key that names the model to start from.
inline constexpr const char* kModelFrom = "model.from";

/// Gives the keys of [model] that the manifest leaves out, and data.tokenizer, the values of the
/// model in kModelFrom, if that is set. Throws Error{manifest} for a key whose value contradicts
/// that model, with both, and Error{data} if the directory is no model.
void resolve_source(Manifest& manifest);

}  // namespace troupe::launch
