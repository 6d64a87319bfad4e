#pragma once

#include <span>
#include <string>
#include <string_view>

#include "schedules/plan.h"

namespace troupe::schedules {

struct ScheduleShape {
  int stages = 1;        ///< p, pipeline ranks
  int chunks = 1;        ///< v, chunks per rank
  int microbatches = 1;  ///< m, per replica and step
};

/// A schedule by name. `check` returns an empty string, or why the shape is impossible with its
/// numbers and the nearest valid choice; `generate` may be called where check is satisfied.
struct Generator {
  std::string_view name;
  std::string_view source;  ///< paper or code that defines it
  std::string (*check)(const ScheduleShape& shape);
  Plan (*generate)(const ScheduleShape& shape);
};

/// All schedules: gpipe, 1f1b, interleaved, forward-only.
std::span<const Generator> generators();
/// Null for an unknown name.
const Generator* find_generator(std::string_view name);

}  // namespace troupe::schedules
