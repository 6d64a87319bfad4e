#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "schedules/costs.h"
#include "schedules/plan.h"

namespace troupe::schedules {

/// How schedules with several chunks a rank take microbatches through a chunk: in groups of a given
/// size (Megatron-LM), or in equal rounds of at least p microbatches (PyTorch).
enum class Grouping { by_size, in_rounds };

struct ScheduleShape {
  int stages = 1;        ///< p, pipeline ranks
  int chunks = 1;        ///< v, chunks per rank
  int microbatches = 1;  ///< m, per replica and step

  int group_size = 0;  ///< G of interleaved and combined-1f1b; 0: p
  Grouping grouping = Grouping::by_size;
  /// Cap of searched schedules in microbatches of a stage: F takes 1, I and W give 1/2 back each.
  /// Default: what the schedule's definition says.
  std::optional<double> memory = {};
  /// What searched schedules are made for. Searches are exact where costs of a chunk are whole.
  Costs costs = {};
};

/// A schedule by name. `check` returns an empty string, or why the shape is impossible with its
/// numbers and the nearest valid choice; `generate` may be called where check is satisfied.
struct Generator {
  std::string_view name;
  std::string_view source;  ///< paper or code that defines it
  int chunks = 1;           ///< per rank, where nobody asks for another number
  int copies = 1;           ///< of the parameters (Plan::num_copies)
  Purpose purpose = Purpose::training;
  bool searched = false;  ///< its order follows ScheduleShape::costs
  std::string (*check)(const ScheduleShape& shape);
  Plan (*generate)(const ScheduleShape& shape);
};

/// All schedules.
std::span<const Generator> generators();
/// Null for an unknown name.
const Generator* find_generator(std::string_view name);

}  // namespace troupe::schedules
