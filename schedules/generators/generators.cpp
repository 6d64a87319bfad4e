#include "schedules/generators/generators.h"

#include <algorithm>
#include <array>
#include <utility>

#include "schedules/generators/families.h"
#include "schedules/plan/counted.h"

namespace troupe::schedules {

namespace {

/// Most actions of a plan, which then takes about a gigabyte.
constexpr int kMaxActions = 100'000'000;

Plan empty_plan(std::string_view kind, const ScheduleShape& shape) {
  Plan plan{.kind = std::string(kind),
            .num_microbatches = shape.microbatches,
            .rank_of_chunk = {},
            .actions = {}};
  plan.actions.resize(shape.stages);
  return plan;
}

}  // namespace

std::span<const Generator> generators() {
  static const std::array kTable = {gpipe(),      one_f_one_b(), interleaved(),
                                    looped_bfs(), zb_h1(),       zb_h2(),
                                    zb_1p(),      zb_2p(),       interleaved_zb(),
                                    zb_v(),       zb_v_static(), v_half(),
                                    v_min(),      dual_pipe(),   dual_pipe_v(),
                                    chimera(),    hanayo(),      combined_one_f_one_b(),
                                    zb_auto(),    forward_only()};
  return kTable;
}

const Generator* find_generator(std::string_view name) {
  const auto found = std::ranges::find(generators(), name, &Generator::name);
  return found == generators().end() ? nullptr : &*found;
}

Plan looped(std::string_view kind, const ScheduleShape& shape) {
  Plan plan = empty_plan(kind, shape);
  for (int chunk = 0; chunk < shape.stages * shape.chunks; ++chunk) {
    plan.rank_of_chunk.push_back(chunk % shape.stages);
  }
  return plan;
}

Plan waved(std::string_view kind, const ScheduleShape& shape) {
  Plan plan = empty_plan(kind, shape);
  const int p = shape.stages;
  for (int chunk = 0; chunk < p * shape.chunks; ++chunk) {
    const bool back = chunk / p % 2 == 1;
    plan.rank_of_chunk.push_back(back ? p - 1 - chunk % p : chunk % p);
  }
  return plan;
}

std::string check_shape(const ScheduleShape& shape) {
  for (const auto& [name, value] :
       {std::pair("stages", shape.stages), std::pair("chunks", shape.chunks),
        std::pair("microbatches", shape.microbatches)})
    if (value < 1) return concat(name, " = ", value, ", but a schedule needs at least 1");
  const double actions = 2.0 * shape.stages * shape.chunks * shape.microbatches;
  if (actions > kMaxActions) {
    return concat(counted(shape.stages, "stage"), " x ", counted(shape.chunks, "chunk"), " x ",
                  counted(shape.microbatches, "microbatch"), " is more than the ", kMaxActions,
                  " forwards and backwards a step may have; use fewer, larger microbatches");
  }
  return {};
}

std::string check_chunks(std::string_view kind, const ScheduleShape& shape, int chunks) {
  const std::string wrong = check_shape(shape);
  if (!wrong.empty() || shape.chunks == chunks) return wrong;
  const std::string needs = chunks == 1 ? "one chunk" : concat(chunks, " chunks");
  return concat(kind, " has ", needs, " per stage, but chunks = ", shape.chunks,
                "; set chunks = ", chunks, chunks == 1 ? ", or choose interleaved" : "");
}

std::string nearest_microbatches(int m, int unit) {
  const int below = m / unit * unit;
  const int nearest = below > 0 && m - below <= below + unit - m ? below : below + unit;
  return concat("the nearest valid number of microbatches is ", nearest);
}

std::string check_two_per_stage(std::string_view kind, const ScheduleShape& shape) {
  const int least = 2 * shape.stages;
  if (shape.microbatches >= least) return {};
  return concat(
      kind, " needs at least 2 microbatches per stage, but microbatches = ", shape.microbatches,
      " is less than 2 x ", shape.stages, "; the nearest valid number of microbatches is ", least);
}

std::string check_two_pipelines(std::string_view kind, const ScheduleShape& shape) {
  const std::string wrong = check_chunks(kind, shape, 2);
  if (!wrong.empty()) return wrong;
  if (shape.stages % 2 != 0)
    return concat(kind,
                  " runs two pipelines against each other over an even number of stages, but "
                  "stages = ",
                  shape.stages, "; the nearest valid number of stages is ", shape.stages + 1);
  if (shape.microbatches % 2 == 0) return {};
  return concat(kind, " sends half of the microbatches from each end, but microbatches = ",
                shape.microbatches, " is odd; ", nearest_microbatches(shape.microbatches, 2));
}

}  // namespace troupe::schedules
