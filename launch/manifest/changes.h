#pragma once

#include <cstdint>

#include "launch/manifest/manifest.h"

namespace troupe::launch {

/// Appends to run.changed of `after`, whose list becomes that of `before` and a line for each key
/// that decides what a step computes and now has another value: "from step 41 on: optimizer.lr =
/// 0.0005, was 0.001". Keys that change no bit of a loss are left out.
void note_changes(Manifest& after, const Manifest& before, std::int64_t from_step);

}  // namespace troupe::launch
