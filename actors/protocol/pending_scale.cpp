#include "actors/protocol/pending_scale.h"

#include <algorithm>

namespace troupe::actors {

int PendingScale::rank_of(std::uint64_t incarnation) const {
  return actors::rank_of(incarnation, preparing);
}

bool PendingScale::all_prepared() const {
  return !preparing.empty() &&
         std::ranges::all_of(preparing, [this](auto worker) { return prepared.contains(worker); });
}

}  // namespace troupe::actors
