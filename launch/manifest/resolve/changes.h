#pragma once

#include <cstdint>

#include "launch/manifest/toml/manifest.h"

namespace troupe::launch {

/// Appends to run.changed of `after`, whose list becomes that of `before` and a line for each key
/// that decides what a step computes and now has another value: "from step 41 on: optimizer.lr =
/// 0.0005, was 0.001". Keys that change no bit of a loss are left out.
void note_changes(Manifest& after, const Manifest& before, std::int64_t from_step);

/// The manifest that a run directory holds while the cluster changes its shape.
class ReshapedManifest {
 public:
  explicit ReshapedManifest(const Manifest& start) : kept_(start), now_(start) {}

  /// What to hold when the run goes on with `changed` from this step on. A resume begins in the
  /// shape that was ordered last: a shape that losses forced only adds its lines to run.changed.
  const Manifest& take(Manifest changed, std::int64_t from_step, bool ordered);

 private:
  Manifest kept_;
  Manifest now_;
};

}  // namespace troupe::launch
