#pragma once

#include <string>
#include <vector>

#include "launch/manifest/toml/manifest.h"

namespace troupe::launch {

/// What a manifest is checked for. A run that is resumed may have a shape in which a key has no
/// effect, because a live change has led there; in a new run that is a mistake.
enum class Purpose { launch, resume };

/// Checks that the values of a resolved manifest fit together: mesh, batch, model, schedule,
/// optimizer, evaluation. A pure function. Throws Error{manifest} with the place, the rule and its
/// numbers, and the nearest valid choice.
void check(const Manifest& manifest, Purpose purpose = Purpose::launch);

// Its parts, which throw as it does, and what they share.

/// Refuses those of these keys that have not their default: "KEY = VALUE " and the sentence's rest.
void refuse_choices(const Manifest& manifest, const std::vector<const Key*>& keys,
                    const std::string& why);

/// That the user set no key which belongs to another kind of model, and that samples fit the table
/// of positions, if the kind has one.
void check_model_kind(const Manifest& manifest);
/// That the model has the targets of [adapter], of which each is told the nearest name.
void check_adapter(const Manifest& manifest);
/// That nobody gives a part of the layout that mesh.auto looks for.
void check_auto_mesh(const Manifest& manifest);
/// That the text to train on is named, once, and that to evaluate on.
void check_data(const Manifest& manifest);
/// [data_parallel] against itself, the mesh and the model.
void check_data_parallel(const Manifest& manifest, Purpose purpose);

}  // namespace troupe::launch
