#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "actors/protocol/protocol_effects.h"
#include "actors/topology/state/copy_ring.h"
#include "actors/topology/state/state_plan.h"
#include "actors/topology/validation.h"
#include "tests/support/simulated_workers.h"

namespace troupe::actors {

/// How the workers of a simulated cluster compute steps, and pass copies of their state on.
class SimSteps : protected SimWorkers {
 protected:
  /// The loss of step `not_finite` is not finite; 0 if all are.
  SimSteps(const RunSpec& spec, std::uint64_t seed, std::int64_t not_finite)
      : SimWorkers(seed), spec_(spec), not_finite_(not_finite) {}

  /// Calls `done` for a replica once it was called for each of its ranks.
  class Round {
   public:
    using Done = std::function<void(std::uint32_t configuration, int replica)>;
    Round(const Configuration& running, Done done)
        : running_(std::make_shared<const Configuration>(running)), done_(std::move(done)) {}
    void add(int rank) const {
      const RunSpec::Mesh& mesh = running_->shape.mesh;
      const int replica = place_of(mesh, rank).replica;
      if (++(*acted_)[replica] == mesh.ranks_of_replica()) done_(running_->number, replica);
    }
    const Configuration& running() const { return *running_; }

   private:
    std::shared_ptr<const Configuration> running_;
    Done done_;
    std::shared_ptr<std::map<int, int>> acted_ = std::make_shared<std::map<int, int>>();
  };
  /// Lets all ranks act that can; once all of a replica have, `done` answers for it.
  template <typename Act>
  void by_replica(const Configuration& running, Act act, Round::Done done) {
    const Round round(running, std::move(done));
    for (int rank = 0; rank < running.num_ranks(); ++rank)
      tell(running.members.at(rank).incarnation, [=](SimWorker& w) {
        if (w.takes_part_in(round.running().number) && act(w, rank)) round.add(rank);
      });
  }

  void order_step(const Configuration& running, std::int64_t step) {
    const SimStep ordered{
        .step = step,
        .ring = std::make_shared<const CopyRing>(copy_ring(running)),
        .votes = Round(running,
                       [=, this](std::uint32_t configuration, int replica) {
                         answer(ReplicaPrepared{.configuration = configuration,
                                                .step = step,
                                                .replica = replica,
                                                .loss_sum = 1,
                                                .squared_norm = squared_norm_of(step),
                                                .not_finite = step == not_finite_ ? "a loss" : ""});
                       }),
        .copies = Round(running, [=, this](std::uint32_t configuration, int replica) {
          answer(
              ReplicaCopied{.configuration = configuration, .step = step - 1, .replica = replica});
        })};
    for (int rank = 0; rank < running.num_ranks(); ++rank)
      tell(running.members.at(rank).incarnation, [=, this](SimWorker& w) {
        if (!w.takes_part_in(ordered.running().number) || w.spoilt) return;
        w.before.reset();
        w.reached = true;
        if (w.lacks == 0) return take(w, rank, ordered);
        w.takes_next = [=, this](SimWorker& worker) { take(worker, rank, ordered); };
      });
  }
  void commit_step(const Configuration& running, std::int64_t step) {
    for (int rank = 0; rank < running.num_ranks(); ++rank)
      tell(running.members.at(rank).incarnation, [this, step](SimWorker& w) {
        if (w.is_ahead ? w.step != step : w.voted && w.voted != step)
          broken_ = "a worker has made another update than the one that is committed";
        w.commit(step);
      });
  }

  const RunSpec spec_;
  const std::int64_t not_finite_;
  std::string broken_;  ///< the promise that was broken; empty if none was

 private:
  struct SimStep {
    std::int64_t step = 0;
    std::shared_ptr<const CopyRing> ring;
    Round votes, copies;
    std::shared_ptr<int> computing = std::make_shared<int>(0);  // ranks
    const Configuration& running() const { return votes.running(); }
  };

  /// So that some steps, always the same, are committed with a factor below 1.
  static double squared_norm_of(std::int64_t step) { return step % 4 == 3 ? 4 : 0.25; }

  /// The worker takes the order of a step, with which it waits if it has voted on the one before.
  void take(SimWorker& w, int rank, const SimStep& ordered) {
    w.lacks = 2;
    if (w.voted != ordered.step - 1) return compute(w, rank, ordered);
    w.update_ahead(ordered.step - 1);
    w.goes_on = [=, this](SimWorker& worker) {
      if (!worker.spoilt) compute(worker, rank, ordered);
    };
  }
  /// The worker knows that its weights stand. It votes once it has the copy that it keeps, and
  /// messages of all others, which they send when they know the same.
  void compute(SimWorker& w, int rank, const SimStep& ordered) {
    const Configuration& running = ordered.running();
    if (w.step != ordered.step - 1) broken_ = "a step ran on other state";
    if (pass_copies(w, rank, ordered)) copy_is_here(w, rank, ordered);
    if (++*ordered.computing < running.num_ranks()) return;
    for (int other = 0; other < running.num_ranks(); ++other)
      tell(running.members.at(other).incarnation, [=, this](SimWorker& worker) {
        if (worker.takes_part_in(ordered.running().number) && !worker.spoilt)
          vote_if_done(worker, other, ordered);
      });
  }
  /// Whether the worker lacks no copy.
  bool pass_copies(SimWorker& w, int rank, const SimStep& ordered) {
    const std::int64_t committed = ordered.step - 1, interval = spec_.recovery.copy_interval;
    const ClusterShape& shape = w.configuration->shape;
    const bool is_first = w.copies.empty();  // these are made before the first step
    if (!copies_state(spec_, shape) || (!is_first && committed % interval != 0)) return true;
    const CopyRecord kept{.rank = ordered.ring->source_of(shape, rank), .step = committed};
    if (is_first) w.receive_copy(kept);
    if (interval > 1) w.receive_copy({.rank = rank, .step = committed});
    if (is_first) return true;
    if (const int keeper = ordered.ring->keeper_of(shape, rank); keeper >= 0)
      tell(ordered.running().members.at(keeper).incarnation,
           [=, this, of = w.incarnation](auto& k) {
             // What is on its way is lost with who sends it.
             if (!k.takes_part_in(ordered.running().number) || !alive(of)) return;
             k.receive_copy({.rank = rank, .step = committed});
             if (const auto take = std::exchange(k.takes_copy, {})) take(k);
           });
    if (kept.rank < 0 || std::ranges::find(w.copies, kept) != w.copies.end()) return true;
    w.takes_copy = [=, this](SimWorker& worker) { copy_is_here(worker, rank, ordered); };
    return false;
  }
  void copy_is_here(SimWorker& w, int rank, const SimStep& ordered) {
    if (tells_of_copies(spec_, w.configuration->shape)) ordered.copies.add(rank);
    vote_if_done(w, rank, ordered);
  }
  static void vote_if_done(SimWorker& w, int rank, const SimStep& ordered) {
    if (--w.lacks > 0) return;
    w.voted = ordered.step;
    ordered.votes.add(rank);
    if (const auto take = std::exchange(w.takes_next, {})) take(w);
  }
};

}  // namespace troupe::actors
