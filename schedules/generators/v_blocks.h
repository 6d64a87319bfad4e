#pragma once

#include <array>
#include <vector>

#include "schedules/plan/action.h"

namespace troupe::schedules {

/// The four actions of a microbatch on a rank of a V, in the order in which they run there: F of
/// the chunk on the way forth (0) and back (1), then I of chunk 1 and of chunk 0.
enum Row { kF0, kF1, kI1, kI0, kRows };
/// The slot of each row's action for microbatch 0 on one rank. Microbatch k is 6k slots later.
using Block = std::array<int, kRows>;

/// Each rank's order for m microbatches: repeats the ranks' blocks, squeezes the warm-up and the
/// cool-down as far as the peak of the repeated blocks allows, and puts W into free slots. Every
/// action takes one slot; the costs do not matter. The `repeat`, `squeeze` and `reorder` of arXiv
/// 2405.15362.
std::vector<std::vector<Action>> squeezed(const std::vector<Block>& blocks, int microbatches);

}  // namespace troupe::schedules
