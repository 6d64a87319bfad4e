#include "actors/topology/program.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "tensor/errors/error.h"

namespace troupe::actors {
namespace {

/// Hands out slot numbers from 0, the lowest free one first.
class SlotNumbers {
 public:
  int take(int chunk, int microbatch) {
    const auto free = std::find(taken_.begin(), taken_.end(), kFree);
    const auto number = static_cast<int>(free - taken_.begin());
    if (free == taken_.end())
      taken_.push_back({chunk, microbatch});
    else
      *free = {chunk, microbatch};
    return number;
  }
  int find(int chunk, int microbatch) const {
    const auto at = std::find(taken_.begin(), taken_.end(), std::pair{chunk, microbatch});
    TROUPE_ASSERT(at != taken_.end());
    return static_cast<int>(at - taken_.begin());
  }
  void give_back(int number) { taken_[static_cast<std::size_t>(number)] = kFree; }

 private:
  static constexpr std::pair<int, int> kFree{-1, -1};
  std::vector<std::pair<int, int>> taken_;
};

/// Marks the last instruction of each chunk that computes weight gradients.
void mark_last_gradients(Program& program) {
  std::set<int> seen;
  for (auto next = program.rbegin(); next != program.rend(); ++next)
    if (next->op == schedules::Op::B || next->op == schedules::Op::W)
      next->last_gradients = seen.insert(next->chunk).second;
}

}  // namespace

Program compile(const RankAssembly& part, const std::vector<schedules::Action>& actions) {
  using schedules::Op;
  Program program;
  program.reserve(actions.size());
  std::map<int, SlotNumbers> live,
      deferred;  // by chunk of the stage, since each chunk has its own slots
  for (const auto& action : actions) {
    const auto at = std::find(part.chunks.begin(), part.chunks.end(), action.chunk);
    TROUPE_ASSERT(at != part.chunks.end());
    const int chunk = static_cast<int>(at - part.chunks.begin());
    const auto& spec = part.stage.chunks[static_cast<std::size_t>(chunk)];
    Instruction next{.op = action.op,
                     .chunk = chunk,
                     .global_chunk = action.chunk,
                     .microbatch = action.microbatch,
                     .first = spec.embedding,
                     .last = spec.head,
                     .overlaps_next = action.overlaps_next};
    const int m = action.microbatch;
    next.slot = action.op == Op::F ? live[chunk].take(chunk, m) : live[chunk].find(chunk, m);
    if (action.op == Op::I) next.deferred = deferred[chunk].take(chunk, m);
    if (action.op == Op::W) {
      next.deferred = deferred[chunk].find(chunk, m);
      deferred[chunk].give_back(next.deferred);
    }
    if (action.op == Op::B || action.op == Op::W) live[chunk].give_back(next.slot);
    program.push_back(next);
  }
  mark_last_gradients(program);
  return program;
}

Program compile_training(const RankAssembly& part) {
  Program program = compile(part, part.actions);
  for (std::size_t i = 0; std::cmp_less(i, part.num_ahead); ++i) program[i].ahead = true;
  for (const int i : part.inputs_ahead) program[static_cast<std::size_t>(i)].input_ahead = true;
  return program;
}

stages::Pass pass_of(schedules::Op op) {
  switch (op) {
    case schedules::Op::F:
      return stages::Pass::forward;
    case schedules::Op::B:
      return stages::Pass::backward;
    case schedules::Op::I:
      return stages::Pass::input_gradient;
    case schedules::Op::W:
      return stages::Pass::weight_gradient;
  }
  assert_failed("op is an Op", __FILE__, __LINE__);
}

transport::MessageKey into(const Instruction& next, std::uint64_t step,
                           transport::Direction direction) {
  return {step, next.microbatch, next.global_chunk, direction};
}

transport::MessageKey out_of(const Instruction& next, std::uint64_t step,
                             transport::Direction direction) {
  const int to = next.global_chunk + (direction == transport::Direction::forward ? 1 : -1);
  return {step, next.microbatch, to, direction};
}

}  // namespace troupe::actors
