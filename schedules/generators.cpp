#include "schedules/generators.h"

#include <array>

#include "schedules/families.h"

namespace troupe::schedules {

namespace {

/// A plan of so many actions takes about a gigabyte.
constexpr int kMaxActions = 100'000'000;

}  // namespace

std::span<const Generator> generators() {
  static const std::array kTable = {gpipe(), one_f_one_b(), interleaved(), forward_only()};
  return kTable;
}

const Generator* find_generator(std::string_view name) {
  for (const Generator& generator : generators()) {
    if (generator.name == name) return &generator;
  }
  return nullptr;
}

Plan looped(std::string_view kind, const ScheduleShape& shape) {
  Plan plan{.kind = std::string(kind),
            .num_microbatches = shape.microbatches,
            .rank_of_chunk = {},
            .actions = {}};
  for (int chunk = 0; chunk < shape.stages * shape.chunks; ++chunk) {
    plan.rank_of_chunk.push_back(chunk % shape.stages);
  }
  plan.actions.resize(shape.stages);
  return plan;
}

std::string check_shape(const ScheduleShape& shape) {
  struct Field {
    const char* name;
    int value;
  };
  for (const Field& field : {Field{"stages", shape.stages}, Field{"chunks", shape.chunks},
                             Field{"microbatches", shape.microbatches}}) {
    if (field.value < 1) {
      return std::string(field.name) + " = " + std::to_string(field.value) +
             ", but a schedule needs at least 1";
    }
  }
  const double actions = 2.0 * shape.stages * shape.chunks * shape.microbatches;
  if (actions > kMaxActions) {
    return std::to_string(shape.stages) + " stages x " + std::to_string(shape.chunks) +
           " chunks x " + std::to_string(shape.microbatches) + " microbatches are more than the " +
           std::to_string(kMaxActions) +
           " forwards and backwards a step may have; use fewer, larger microbatches";
  }
  return {};
}

std::string check_one_chunk(std::string_view kind, const ScheduleShape& shape) {
  const std::string wrong = check_shape(shape);
  if (!wrong.empty() || shape.chunks == 1) return wrong;
  return std::string(kind) +
         " has one chunk per stage, but chunks = " + std::to_string(shape.chunks) +
         "; set chunks = 1, or choose interleaved";
}

}  // namespace troupe::schedules
