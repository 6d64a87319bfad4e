#pragma once

#include <algorithm>
#include <random>

#include "schedules/plan/plan.h"

namespace troupe::schedules {

using Random = std::mt19937_64;

inline int pick(Random& random, int first, int last) {
  return std::uniform_int_distribution<int>(first, last)(random);
}

/// The plan of a step that ran in a random order of ranks and their ready actions. So it is valid
/// and ends, but its weight-gradients may be in any order.
inline Plan random_plan(Random& random) {
  const int p = pick(random, 1, 4);
  const int v = pick(random, 1, 3);
  Plan plan{
      .kind = "csv", .num_microbatches = pick(random, 1, 8), .rank_of_chunk = {}, .actions = {}};
  for (int chunk = 0; chunk < p * v; ++chunk) plan.rank_of_chunk.push_back(chunk % p);
  std::shuffle(plan.rank_of_chunk.begin(), plan.rank_of_chunk.end(), random);
  plan.actions.resize(p);

  std::vector<Action> ready;
  for (int i = 0; i < plan.num_microbatches; ++i) ready.push_back({0, Op::F, i});
  while (!ready.empty()) {
    const int at = pick(random, 0, static_cast<int>(ready.size()) - 1);
    const Action done = ready[at];
    ready.erase(ready.begin() + at);
    plan.actions[plan.rank_of_chunk[done.chunk]].push_back(done);
    const auto backward = [&](int chunk) {
      ready.push_back({chunk, pick(random, 0, 1) ? Op::B : Op::I, done.microbatch});
    };
    const bool last = done.chunk + 1 == plan.num_chunks();
    if (done.op == Op::F && !last) ready.push_back({done.chunk + 1, Op::F, done.microbatch});
    if (done.op == Op::F && last) backward(done.chunk);
    if (done.op == Op::I) ready.push_back({done.chunk, Op::W, done.microbatch});
    if ((done.op == Op::I || done.op == Op::B) && done.chunk > 0) backward(done.chunk - 1);
  }
  return plan;
}

}  // namespace troupe::schedules
