#pragma once

#include <cstdint>
#include <memory>

#include "actors/monitors/event.h"

namespace troupe::test {

/// A step of 100 tokens in 0.03 s, of two sources; stage 1 was busy for 2 s and idle for 1 s,
/// a quarter of it for collectives, and rank 0 sent rank 1 64 bytes.
inline actors::RunEvent step_event(std::int64_t step, double loss) {
  const actors::StepReport::Measured measured{
      .stages = {{.stage = 1, .busy_s = 2, .idle_s = 1, .collective_s = 0.25}},
      .edges = {{.from = 0, .to = 1, .bytes = 64}}};
  return {.step = step,
          .body = actors::StepCommitted{
              .report = {.step = step,
                         .loss = loss,
                         .tokens = 100,
                         .sources = {{.name = "books", .loss = loss + 1, .tokens = 60},
                                     {.name = "code", .loss = loss, .tokens = 40}},
                         .step_s = 0.03,
                         .replicas = {std::make_shared<actors::StepReport::Measured>(measured)}}}};
}

}  // namespace troupe::test
