#pragma once

#include <ostream>
#include <vector>

#include "stages/stage/recompute.h"

namespace troupe::test {

/// Every mode of recompute, each in several ways.
inline std::vector<stages::Recompute> ways_to_recompute() {
  using stages::Recompute;
  using enum Recompute::Mode;
  using enum Recompute::Method;
  return {{.mode = selective},
          {.mode = output},
          {.mode = output, .kept_microbatches = 1},
          {.mode = full},
          {.mode = full, .num_layers = 2},
          {.mode = full, .num_layers = 2, .kept_microbatches = 1},
          {.mode = full, .num_layers = 100},
          {.mode = full, .method = block, .num_layers = 1},
          {.mode = full, .method = block, .num_layers = 100}};
}

}  // namespace troupe::test

namespace troupe::stages {

inline std::ostream& operator<<(std::ostream& out, const Recompute& recompute) {
  const char* modes[] = {"none", "selective", "output", "full"};
  const bool is_block = recompute.method == Recompute::Method::block;
  return out << modes[static_cast<int>(recompute.mode)] << (is_block ? " block " : " ")
             << recompute.num_layers << ", " << recompute.kept_microbatches << " kept"
             << (recompute.distribute_saved_activations ? ", distributed" : "");
}

}  // namespace troupe::stages
