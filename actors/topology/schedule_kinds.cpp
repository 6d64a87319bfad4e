#include "actors/topology/schedule_kinds.h"

#include <utility>
#include <vector>

namespace troupe::actors {
namespace {

constexpr const char* kGuess = "1f1b";

}  // namespace

const schedules::Generator* generator_of(const std::string& kind) {
  const auto* generator = schedules::find_generator(kind == kAutoSchedule ? kGuess : kind);
  return generator && generator->purpose == schedules::Purpose::training ? generator : nullptr;
}

std::vector<std::string_view> schedule_kinds() {
  std::vector<std::string_view> kinds;
  for (const auto& generator : schedules::generators())
    if (generator.purpose == schedules::Purpose::training) kinds.push_back(generator.name);
  kinds.push_back("csv");
  kinds.push_back(kAutoSchedule);
  return kinds;
}

schedules::Plan measuring_plan(const schedules::ScheduleShape& shape) {
  using schedules::Op;
  schedules::Plan plan = schedules::find_generator(kGuess)->generate(shape);
  plan.kind = kAutoSchedule;
  for (auto& row : plan.actions) {
    std::vector<schedules::Action> split;
    for (const auto& action : row) {
      split.push_back(action);
      if (action.op != Op::B || action.microbatch % 2 == 0) continue;
      split.back().op = Op::I;
      split.push_back({action.chunk, Op::W, action.microbatch});
    }
    row = std::move(split);
  }
  return plan;
}

}  // namespace troupe::actors
