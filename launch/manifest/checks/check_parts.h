#pragma once

#include <string>
#include <vector>

#include "launch/manifest/checks/check.h"
#include "launch/manifest/toml/manifest.h"

// The parts of check(), each a pure function of a resolved manifest. They throw Error{manifest}
// with the place, the rule and the nearest valid choice.

namespace troupe::launch {

/// Refuses those of these keys that have not their default: "KEY = VALUE " and the sentence's rest.
void refuse_choices(const Manifest& manifest, const std::vector<const Key*>& keys,
                    const std::string& why);

/// That the user set no key which belongs to another kind of model, and that samples fit the table
/// of positions, if the kind has one.
void check_model_kind(const Manifest& manifest);
/// That the text to train on is named, once, and that to evaluate on.
void check_data(const Manifest& manifest);
/// [data_parallel] against itself, the mesh and the model.
void check_data_parallel(const Manifest& manifest, Purpose purpose);

}  // namespace troupe::launch
