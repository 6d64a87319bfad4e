#pragma once

#include <string>
#include <utility>

#include "launch/watch/run_watch.h"
#include "launch/web/parts.h"

// A run that is watched, and the parts of its page.

namespace troupe::test::watch {

using namespace actors;
using launch::RunNow;
using launch::RunWatch;

inline constexpr double kNow = 1.8e9;

inline RunEvent event_of(EventBody body, std::int64_t step = 0, double time = 100) {
  return {.configuration = 1, .step = step, .body = std::move(body), .time = time};
}

inline RunEvent members(int pp, int dp) {
  MembershipChanged membership{.pipeline = {.pp = pp, .dp = dp}, .schedule = "1f1b"};
  for (int rank = 0; rank < pp * dp; ++rank)
    membership.ranks.push_back(
        {.rank = rank, .replica = rank / pp, .stage = rank % pp, .host = "<host>"});
  return event_of(std::move(membership));
}

inline RunWatch watched(std::int64_t max_steps = 100) {
  return RunWatch({.name = "a & b", .max_steps = max_steps, .peak = {}});
}

inline std::string part_of(const RunNow& run, const std::string& id,
                           const launch::View& view = {}) {
  return parts_of(run, view).at(id);
}

inline bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace troupe::test::watch
