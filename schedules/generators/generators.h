#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "schedules/analysis/costs.h"
#include "schedules/plan/plan.h"

namespace troupe::schedules {

/// How schedules with several chunks per rank take microbatches through a chunk: in groups of a
/// given size (Megatron-LM), or in equal rounds of at least p microbatches (PyTorch).
enum class Grouping { by_size, in_rounds };

struct ScheduleShape {
  int stages = 1;        ///< p, pipeline ranks
  int chunks = 1;        ///< v, chunks per rank
  int microbatches = 1;  ///< m, per replica and step

  int group_size = 0;  ///< G of interleaved and combined-1f1b; 0 means p
  Grouping grouping = Grouping::by_size;
  /// Memory cap of searched schedules, in microbatches of a stage: F takes 1, I and W give 1/2 back
  /// each. If not set, the schedule's definition gives it.
  std::optional<double> memory = {};
  /// The costs that searched schedules are made for. Searches are exact if the costs of a chunk are
  /// whole numbers.
  Costs costs = {};
};

/// A schedule with its name. `check` returns an empty string if the shape is possible, else why it
/// is not, with its numbers and the nearest valid choice. `generate` may be called only if the
/// shape is possible.
struct Generator {
  std::string_view name;
  std::string_view source;  ///< paper or code that defines it
  int chunks = 1;           ///< per rank, unless another number is asked for
  int copies = 1;           ///< of the parameters (Plan::num_copies)
  Purpose purpose = Purpose::training;
  bool searched = false;  ///< its order depends on ScheduleShape::costs
  std::string (*check)(const ScheduleShape& shape);
  Plan (*generate)(const ScheduleShape& shape);
};

/// The table of all schedules.
std::span<const Generator> generators();
/// Finds a schedule by name; null for an unknown one.
const Generator* find_generator(std::string_view name);

}  // namespace troupe::schedules
