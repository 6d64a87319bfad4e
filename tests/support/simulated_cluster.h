#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "actors/protocol/protocol.h"
#include "tests/support/simulated_faults.h"
#include "tests/support/simulated_hosts.h"
#include "tests/support/simulated_steps.h"

namespace troupe::actors {

/// The director's protocol and what it orders. It checks the promises, not the paths.
class Simulation : protected SimSteps {
 public:
  Simulation(const RunSpec& spec, std::uint64_t seed, std::int64_t not_finite = 0)
      : SimSteps(spec, seed, not_finite),
        protocol_(spec, {.seed = seed}),
        hosts_(spec,
               {.messages = *this,
                .protocol = protocol_,
                .now = [this] { return now(); },
                .feed = [this](const Event& event) { feed(event); },
                .kill_workers = [this](const auto& host, bool told) { kill_workers(host, told); },
                .order_to_leave = [this](const auto& host) { order_to_leave(host); }}) {}

  void lack(const Shortage& shortage) { shortage_ = shortage; }
  void strike_hosts(const HostFaults& faults) { hosts_.strike(faults); }

  /// Runs to the end. Meanwhile `faults` workers die at any moment; if newcomers alone die, before
  /// they have a part.
  SimResult run(int faults, int orders, int saves = 0, bool newcomers_alone = false) {
    hosts_.join_all();
    feed(Started{});
    const int limit = 20000;
    for (int turn = 0; turn < limit && protocol_.phase() != DirectorProtocol::Phase::ended;
         ++turn) {
      if (faults > 0 && pick(newcomers_alone ? 4 : 40) == 0 &&
          (newcomers_alone ? strike_newcomer() : strike()))
        --faults;
      if (orders > 0 && protocol_.committed() > 0 && pick(30) == 0) {
        order();
        --orders;
      }
      if (saves > 0 && protocol_.phase() != DirectorProtocol::Phase::ended && pick(50) == 0) {
        order_save();
        --saves;
      }
      hosts_.change();
      strike_director();
      if (!deliver_one()) {
        if (timer_ == 0) break;
        feed(TimerRang{.timer = timer_, .now_s = now()});
      }
      if (result_.broken.empty()) result_.broken = broken_;
      if (!result_.broken.empty()) break;
    }
    if (protocol_.phase() != DirectorProtocol::Phase::ended && result_.broken.empty())
      result_.broken = "the run neither ended nor went on: " + describe();
    return result_;
  }

 protected:
  /// Loses the director, in a simulation that can do without it.
  virtual void strike_director() {}
  virtual void note(const ReportTakeOver&) { result_.broken = "nobody has left this run"; }

  std::string describe() const {
    std::string text = "phase " + std::to_string(static_cast<int>(protocol_.phase())) + ", step " +
                       std::to_string(protocol_.committed()) + ", configuration " +
                       std::to_string(protocol_.configuration().number);
    for (const auto& [incarnation, worker] : workers_)
      text += ", worker " + std::to_string(worker.id) + (worker.joined ? " joined" : " new") +
              (worker.configuration ? " in " + std::to_string(worker.configuration->number) : "");
    return text;
  }
  void feed(const Event& event) override {
    if (const auto* published = std::get_if<Published>(&event))
      if (publishing_ == published->step) publishing_.reset();
    if (const auto* join = std::get_if<MemberJoined>(&event))
      if (SimWorker* worker = alive(join->member.incarnation)) worker->known = true;
    if (const auto* left = std::get_if<MemberAdopted>(&event))
      if (SimWorker* worker = alive(left->member.incarnation)) worker->known = true;
    for (const Effect& effect : protocol_.on(event))
      std::visit([this](const auto& e) { perform(e); }, effect);
  }

  bool strike() {
    if (workers_.empty() || protocol_.phase() == DirectorProtocol::Phase::ending) return false;
    auto victim = std::next(workers_.begin(), pick(static_cast<int>(workers_.size())));
    die(victim->first, true);
    return true;
  }
  bool strike_newcomer() {
    if (reached_.number == 0 || protocol_.phase() == DirectorProtocol::Phase::ending) return false;
    std::vector<std::uint64_t> newcomers;
    for (const auto& [incarnation, worker] : workers_)
      if (reached_.rank_of(incarnation) < 0 &&
          !(worker.configuration && ready_.contains(worker.configuration->rank_of(incarnation))))
        newcomers.push_back(incarnation);
    if (newcomers.empty()) return false;
    die(newcomers[static_cast<std::size_t>(pick(static_cast<int>(newcomers.size())))], true);
    return true;
  }
  void order_to_leave(const std::vector<std::string>& hosts) {
    if (protocol_.phase() >= DirectorProtocol::Phase::ending) return;
    open_orders_.insert(++ordered_);
    feed(ScaleOrdered{.order = ordered_, .request = {.without_hosts = hosts}});
    for (const std::string& host : hosts)
      if (protocol_.hosts().is_up(host)) hosts_.stays(host);
  }
  void order() {
    const std::uint64_t number = ++ordered_;
    open_orders_.insert(number);
    ScaleRequest request;
    request.pp = 1 + pick(4);
    feed(ScaleOrdered{.order = number, .request = request});
  }

  void order_save() {
    const std::uint64_t number = ++ordered_;
    open_saves_.insert(number);
    feed(SaveOrdered{.order = number});
  }

  // The functions perform() do what the actors would do.
  void perform(const SpawnWorker& effect) {
    if (reached_.number > 0 && take_one(shortage_.starts))
      return answer(WorkerExited{.incarnation = effect.incarnation,
                                 .exit_code = 69,
                                 .cause = "a failed start",
                                 .now_s = now()});
    if (const auto fault = hosts_.fault_in(effect); !fault.empty()) result_.broken = fault;
    if (!hosts_.starts_on(effect.host)) return;  // the director has not heard of it yet
    for (const auto& [incarnation, worker] : workers_)
      if (worker.id == effect.id) result_.broken = "two workers have one id";
    workers_[effect.incarnation] = {
        .incarnation = effect.incarnation, .id = effect.id, .host = effect.host};
    tell(effect.incarnation, [this](SimWorker& worker) {
      worker.joined = true;
      answer(MemberJoined{.member = {.id = worker.id,
                                     .incarnation = worker.incarnation,
                                     .address = std::to_string(worker.node)}});
    });
  }
  /// Whether one is left of what is to fail, and its time has come.
  bool take_one(int& left) {
    if (left == 0 || protocol_.committed() == 0 || pick(3) != 0) return false;
    --left;
    return true;
  }
  /// Lets a worker answer an order with an error, after which it waits for the next order to halt.
  bool fails(const SimWorker& worker, std::uint32_t configuration) {
    if (!take_one(shortage_.orders)) return false;
    answer(WorkerFailed{.incarnation = worker.incarnation,
                        .configuration = configuration,
                        .kind = shortage_.data ? ErrorKind::data : ErrorKind::unavailable,
                        .message = "no thread left",
                        .symptom = !shortage_.data,
                        .now_s = now()});
    return true;
  }
  void perform(const KillWorker& effect) { die(effect.incarnation, true); }
  void perform(const ReportWorkerLost& effect) { result_.lost_parts += effect.has_part ? 1 : 0; }
  void perform(const ReportHost& effect) { hosts_.note(effect, result_); }
  void perform(const ReportGivenUp&) {}
  void perform(const ReportRefused& effect) {
    result_.broken = "what nobody sent wrongly was refused: " + effect.why;
  }
  void perform(const OrderHalt& effect) {
    for (const auto& [incarnation, worker] : workers_)
      if (worker.known)
        tell(incarnation, [this, effect](SimWorker& w) {
          const Halted halted = w.halt(effect.halt);
          if (!fails(w, effect.halt.configuration)) answer(halted);
        });
  }
  void perform(const OrderWarmUp& effect) {
    for (std::size_t rank = 0; rank < effect.assignment.size(); ++rank)
      tell(effect.assignment[rank], [this, order = effect.order, rank](SimWorker& worker) {
        answer(Warm{
            .order = order, .incarnation = worker.incarnation, .rank = static_cast<int>(rank)});
      });
  }
  void perform(const WarmUpSpare&) {}
  void perform(const ReportWentBack& effect) {
    ++result_.went_back;
    told_back_ = effect.way.back_to;
    if (effect.way.back_to >= newest_ ||
        effect.way.reached != static_cast<std::int64_t>(result_.committed.size()))
      result_.broken = "a way back was told that is none";
  }
  void perform(const ReportTakeOver& effect) { note(effect); }
  void perform(const StartConfiguration& effect) {
    const std::int64_t back_to = effect.state.step;
    if (std::exchange(told_back_, std::nullopt) !=
        (back_to < newest_ ? std::optional(back_to) : std::nullopt))
      result_.broken = "steps are computed again of which nobody was told";
    result_.lost_steps += !effect.state.from_memory && back_to < newest_ ? 1 : 0;
    newest_ = back_to;
    if (publishing_ && !effect.state.from_memory)
      result_.broken = "a configuration loads a checkpoint that a newer one may push out";
    if (const auto fault = hosts_.fault_in(effect.configuration); !fault.empty())
      result_.broken = fault;
    ready_.clear();
    begun_.clear();
    const auto order = std::make_shared<const StartConfiguration>(effect);
    for (const auto& [place, member] : effect.configuration.members)
      tell(member.incarnation, [this, order](SimWorker& w) { begin(w, *order); });
  }
  void begin(SimWorker& w, const StartConfiguration& order) {
    const Configuration& configuration = order.configuration;
    const int rank = configuration.rank_of(w.incarnation);
    if (configuration.number == protocol_.configuration().number && configuration.number > 1 &&
        fails(w, configuration.number))
      return;
    w.begin(configuration, order.state.step);
    if (configuration.members.at(rank).address != std::to_string(w.node))
      result_.broken = "peers were given an address that a worker no longer has";
    if (configuration.number == protocol_.configuration().number) began(order, rank);
  }
  /// A member that has begun gives its state at once. A member that has begun and has all its state
  /// is ready.
  void began(const StartConfiguration& effect, int member) {
    begun_.insert(member);
    const Configuration& configuration = effect.configuration;
    for (int rank = 0; rank < configuration.num_ranks(); ++rank) {
      const bool has_all = std::ranges::all_of(effect.state.moves, [&](const StateMove& move) {
        return move.to != rank || begun_.contains(move.from);
      });
      // A worker that has died meanwhile does not answer.
      if (!has_all || !begun_.contains(rank) ||
          !alive(configuration.members.at(rank).incarnation) || !ready_.insert(rank).second)
        continue;
      const int replica = place_of(configuration.shape.mesh, rank).replica,
                of_replica = configuration.shape.mesh.ranks_of_replica();
      if (std::ranges::count_if(ready_, [&](int r) {
            return place_of(configuration.shape.mesh, r).replica == replica;
          }) == of_replica)
        answer(ReplicaReady{.configuration = configuration.number, .replica = replica});
    }
  }
  void perform(const ReportConfiguration&) {
    const Configuration& next = protocol_.configuration();
    result_.grown += reached_.number > 0 && next.num_ranks() > reached_.num_ranks() ? 1 : 0;
    result_.shrunk += reached_.number > 0 && next.num_ranks() < reached_.num_ranks() ? 1 : 0;
    reached_ = next;
  }
  void perform(const OrderLeave& effect) {
    tell(effect.incarnation, [this](SimWorker& w) { die(w.incarnation, false); });
  }
  void perform(const OrderStep& effect) { order_step(protocol_.configuration(), effect.step); }
  void perform(const OrderCommit& effect) {
    // The bits of a step follow from its number alone, so a repeated step must be the same.
    const auto [known, is_new] = result_.committed.emplace(effect.step, effect.step);
    if (!is_new && known->second != static_cast<std::uint64_t>(effect.step))
      result_.broken = "a step was committed differently";
    if (is_new && effect.step != static_cast<std::int64_t>(result_.committed.size()))
      result_.broken = "a step was skipped";
    newest_ = effect.step;
    commit_step(protocol_.configuration(), effect.step);
  }
  void perform(const OrderSave& effect) {
    by_replica(
        protocol_.configuration(),
        [=, this](const SimWorker& w, int) {
          if (w.step != effect.step) result_.broken = "a checkpoint of other state was written";
          return true;
        },
        [=, this](std::uint32_t configuration, int r) {
          answer(ReplicaSaved{.configuration = configuration, .step = effect.step, .replica = r});
        });
  }
  void perform(const PublishCheckpoint& effect) {
    publishing_ = effect.step;
    const bool fails = take_one(shortage_.saves);
    if (!fails) result_.published.insert(effect.step);
    answer(Published{.step = effect.step, .error = fails ? "I/O error" : ""});
  }
  void perform(const AbandonCheckpoint&) {}
  void perform(const Evaluate& effect) {
    by_replica(
        protocol_.configuration(), [](const SimWorker& w, int) { return !w.spoilt; },
        [=, this](std::uint32_t configuration, int replica) {
          answer(ReplicaEvaluated{.configuration = configuration,
                                  .step = effect.step,
                                  .batch = effect.batch,
                                  .replica = replica,
                                  .loss_sum = 1});
        });
  }
  void perform(const ReportEvaluation& effect) {
    if (!result_.evaluated.insert(effect.step).second)
      result_.broken = "a step was evaluated twice";
  }
  void perform(const ReportUnsaved&) {}
  void perform(const ReportRepair&) {}
  void perform(const AnswerScale& effect) {
    if (open_orders_.erase(effect.order) == 0) result_.broken = "an order was answered twice";
    ++result_.answered;
  }
  void perform(const AnswerSave& effect) {
    if (open_saves_.erase(effect.order) == 0) result_.broken = "an order was answered twice";
    if (effect.refused.empty()) {
      ++result_.saved;
      if (publishing_ || !result_.published.contains(effect.step))
        result_.broken = "an ordered checkpoint was told of before it was complete";
    } else if (effect.kind == ErrorKind::retry && !protocol_.writing() && open_saves_.empty()) {
      result_.broken = "a checkpoint was refused for another that nobody makes";
    }
  }
  void perform(const StartTimer& effect) { timer_ = effect.timer; }
  void perform(const StartGrowTimer& effect) { hosts_.note(effect); }
  void perform(const Finish&) {
    for (const auto& [incarnation, worker] : workers_)
      tell(incarnation, [this](SimWorker& w) { die(w.incarnation, false); });
  }
  void perform(const KillWorkers&) {
    std::vector<std::uint64_t> all;
    for (const auto& [incarnation, worker] : workers_) all.push_back(incarnation);
    for (const auto incarnation : all) die(incarnation, true);
  }
  void perform(const End& effect) {
    if (publishing_) result_.broken = "the run ended before its checkpoint was published";
    result_.outcome = effect.outcome;
    if (!open_orders_.empty() || !open_saves_.empty())
      result_.broken = "an order was never answered";
  }

  DirectorProtocol protocol_;
  SimHosts hosts_;
  std::set<int> begun_, ready_;  // members of the configuration that is being prepared
  Configuration reached_;        // by all ranks
  std::set<std::uint64_t> open_orders_, open_saves_;
  std::uint64_t ordered_ = 0, timer_ = 0;
  std::int64_t newest_ = 0;                // the step of the state that the workers have
  std::optional<std::int64_t> told_back_;  // to which the next configuration is said to go back
  std::optional<std::int64_t> publishing_;
  Shortage shortage_;
  SimResult result_;
};

}  // namespace troupe::actors
