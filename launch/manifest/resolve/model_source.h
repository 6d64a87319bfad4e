#pragma once

#include "launch/manifest/toml/manifest.h"

namespace troupe::launch {

/// A key of [model] that only kinds with a trait read, or only those without it, and what to do in
/// a model of another kind, for whose name a first {} stands, and for its biases the next.
struct KindKey {
  std::string_view name;
  bool stages::KindTraits::*trait;
  bool has_it;
  const char* otherwise;

  bool is_of(const stages::KindTraits& kind) const { return kind.*trait == has_it; }
};
/// None for a key that all kinds read, or that the type of a rotary embedding decides about.
const KindKey* find_kind_key(std::string_view name);
/// Whether a rotary embedding of this type reads a key, as rope_factor.
bool reads_key(tensor::RotaryType type, std::string_view name);

/// Gives the keys of [model] that the manifest leaves out, and data.tokenizer, the values of the
/// model in model.from, if that is set. Throws Error{manifest} for a key whose value contradicts
/// that model, with both, and Error{data} if the directory is no model.
void resolve_source(Manifest& manifest);

}  // namespace troupe::launch
