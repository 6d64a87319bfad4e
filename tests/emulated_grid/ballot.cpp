#include "tests/emulated_grid/emulated_grid.h"

namespace troupe::emulated_grid {

unsigned ballot(const WarpOperation& operation, bool predicate) {
  struct Lane {
    bool predicate;
    unsigned votes;
  } self{predicate, 0};
  Block::current().warp(operation, &self, [](void* const* lanes) {
    unsigned votes = 0;
    for (unsigned i = 0; i < kWarp; ++i) {
      if (lanes[i] && static_cast<Lane*>(lanes[i])->predicate) votes |= 1u << i;
    }
    for (unsigned i = 0; i < kWarp; ++i) {
      if (lanes[i]) static_cast<Lane*>(lanes[i])->votes = votes;
    }
  });
  return self.votes;
}

}  // namespace troupe::emulated_grid
