#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "actors/topology/run_spec.h"
#include "launch/host/machine.h"
#include "launch/manifest/inputs/corpus.h"
#include "launch/manifest/inputs/placement.h"

namespace troupe::launch {

/// A summary of a run for people: model, batch, mesh, schedule and a row for each rank. Every line
/// has its line break. `pinned` tells whether ranks are bound to cores of their own, `bandwidth`
/// how many GB/s a rank sends to others; 0: not known.
std::string summary(const actors::RunSpec& spec, const Placement& placement, bool pinned,
                    double bandwidth = 0);

/// A line about each GPU that ranks of this machine would use and which these are, or why there is
/// none; empty if the run asks for none. `order`: order_of_gpus().
std::string gpu_lines(const Machine& machine, std::span<const int> order,
                      const actors::RunSpec& spec);

/// A line about each source of the corpus: tokens, samples, and how often the run reads them; and
/// one that tells what is put around texts.
std::string corpus_lines(const actors::RunSpec& spec, const Corpus& corpus);

}  // namespace troupe::launch
