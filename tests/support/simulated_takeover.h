#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/simulated_cluster.h"

namespace troupe::actors {

/// A simulated cluster whose director is lost at any moment, alone or with its host, and whose run
/// another one takes over, with the workers that are left. What was on its way is lost, and maybe
/// what the lost one had not written down yet of the last steps.
class TakeoverSimulation : public Simulation {
 public:
  TakeoverSimulation(const RunSpec& spec, std::uint64_t seed, int losses)
      : Simulation(spec, seed), seed_(seed), losses_(losses) {}

  int taken_over() const { return taken_over_; }
  int from_memory() const { return from_memory_; }

 private:
  void strike_director() override {
    const bool is_over = protocol_.phase() >= DirectorProtocol::Phase::ending;
    if (losses_ == 0 || is_over || protocol_.committed() == 0 || pick(60) != 0) return;
    --losses_;
    lose_director();
  }

  void lose_director() {
    lose_all();
    if (pick(2) == 0)
      if (const std::string host = hosts_.lose_directors_host(); !host.empty())
        kill_workers(host, false);
    const std::vector<MemberAdopted> left = tell_what_is_left();
    open_orders_.clear();
    open_saves_.clear();
    publishing_.reset();
    told_back_.reset();
    timer_ = 0;
    for (int i = pick(3); i > 0 && result_.committed.size() > 1; --i)
      unwritten_.insert(result_.committed.extract(std::prev(result_.committed.end())));
    RunStart start{.saved_step = result_.published.empty() ? -1 : *result_.published.rbegin(),
                   .seed = ++seed_ * 1'000'003,
                   .left_by = "the director is lost",
                   .reported = std::ssize(result_.committed),
                   .evaluated = result_.evaluated.empty() ? 0 : *result_.evaluated.rbegin()};
    start.first_step = std::max<std::int64_t>(start.saved_step, 0);
    for (const MemberAdopted& worker : left)
      start.left.push_back({.incarnation = worker.member.incarnation, .host = worker.member.host});
    newest_ = start.first_step;
    if (left.empty()) {  // as any resume
      result_.committed.merge(std::exchange(unwritten_, {}));
      std::erase_if(result_.committed,
                    [&](const auto& step) { return step.first > start.first_step; });
      start.reported = 0;
    }
    protocol_ = DirectorProtocol(spec_, start);
    hosts_.rejoin_all();
    later(-9, [this] { feed(Started{}); });
    for (const MemberAdopted& worker : left)
      tell(worker.member.incarnation, [this, worker](SimWorker&) { answer(worker); });
  }

  /// What the workers that can be adopted will tell; the others end.
  std::vector<MemberAdopted> tell_what_is_left() {
    std::vector<MemberAdopted> left;
    std::vector<std::uint64_t> others;
    for (auto& [incarnation, worker] : workers_) {
      if (!std::exchange(worker.known, false)) {
        others.push_back(incarnation);
        continue;
      }
      MemberAdopted tells{.member = {.id = worker.id,
                                     .incarnation = incarnation,
                                     .host = worker.host,
                                     .address = std::to_string(worker.node)},
                          .configuration = worker.newest,
                          .held = {}};
      if (worker.configuration && is_ready(worker))
        add(tells, *worker.configuration, worker.reached);
      if (worker.before) add(tells, *worker.before, true);
      left.push_back(std::move(tells));
    }
    for (const std::uint64_t worker : others) die(worker, true, false);
    return left;
  }
  /// Whether it has all state of its configuration.
  bool is_ready(const SimWorker& worker) const {
    const Configuration& now = protocol_.configuration();
    return worker.reached || (worker.configuration->number == now.number &&
                              ready_.contains(now.rank_of(worker.incarnation)));
  }
  static void add(MemberAdopted& tells, const Configuration& configuration, bool reached) {
    const int rank = configuration.rank_of(tells.member.incarnation);
    if (rank >= 0 && rank < configuration.num_ranks())
      tells.held.push_back({.header = {.run = configuration.run,
                                       .number = configuration.number,
                                       .shape = configuration.shape},
                            .rank = rank,
                            .reached = reached});
  }

  void note(const ReportTakeOver& effect) override {
    ++taken_over_;
    from_memory_ += effect.from_memory;
    // The workers know what the lost director had not written down.
    for (const auto& step : unwritten_)
      if (step.first <= effect.committed) result_.committed.insert(step);
    newest_ = std::ssize(result_.committed);
    if (effect.committed != newest_) result_.broken = "nobody knows a step that was committed";
  }

  std::uint64_t seed_;
  int losses_;
  int taken_over_ = 0, from_memory_ = 0;
  std::map<std::int64_t, std::uint64_t> unwritten_;  // steps that workers know
};

}  // namespace troupe::actors
