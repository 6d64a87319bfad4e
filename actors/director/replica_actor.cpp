#include "actors/director/replica_actor.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "actors/director/step_report.h"
#include "actors/protocol/votes/aggregate_votes.h"

namespace troupe::actors {
namespace {

std::string difference_of(const Ready& ready, const ClusterShape& shape) {
  const Ready::Difference& found = ready.difference;
  if (found.parameter.empty()) return "";
  return fmt::format("{} had other weights than replica {}: {} parameter{}, {}{}",
                     name_of(shape, ready.rank), found.reference, found.count,
                     found.count == 1 ? "" : "s", found.count == 1 ? "" : "the first ",
                     found.parameter);
}

}  // namespace

ReplicaActor::ReplicaActor(caf::actor_config& config, ReplicaContext context)
    : ControlActor(config),
      context_(std::move(context)),
      liveness_(context_.recovery, context_.hears_host, context_.cpu_seconds),
      ready_(context_.ranks.size()),
      prepared_(context_.ranks.size()),
      copied_(context_.ranks.size()),
      saved_(context_.ranks.size()),
      evaluated_{RankAnswers<Evaluated>(context_.ranks.size()),
                 RankAnswers<Evaluated>(context_.ranks.size())} {}

caf::behavior ReplicaActor::make_behavior() {
  for (const RankHandle& rank : context_.ranks) monitor(rank.actor);
  delayed_send(this, kLivenessTick, Tick{});
  return behavior_of<ReplicaRef>(
      {
          [this](const Ready& answer) { take(answer, "Ready"); },
          [this](const Prepared& answer) { take(answer, "Prepared"); },
          [this](const Copied& answer) { take(answer, "Copied"); },
          [this](const Saved& answer) { take(answer, "Saved"); },
          [this](const Evaluated& answer) { take(answer, "Evaluated"); },
          [this](const TracedActions& seen) { take(seen, "TracedActions"); },
          [this](const Tapped& seen) { take(seen, "Tapped"); },
          [this](const ParameterHistograms& seen) { take(seen, "ParameterHistograms"); },
          [this](const Heartbeat& beat) { on_heartbeat(beat); },
      },
      {
          [this](const std::shared_ptr<const ConfigurationOrders>& orders) { begin(orders); },
          [this](const Halt& order) { halt(order); },
          [this](const RunStep& order) { pass_on(order); },
          [this](const Commit& order) {
            committed_ = order.step;
            pass_on(order);
          },
          [this](const Save& order) { pass_on(order); },
          [this](const Evaluate& order) { pass_on(order); },
          [this](const Finish& order) { pass_on(order); },
          [this](Tick) {
            watch_over_ranks();
            delayed_send(this, kLivenessTick, Tick{});
          },
      });
}

void ReplicaActor::on_exit() {
  context_.ranks.clear();
  context_.director = scheduler_ = nullptr;
}

int ReplicaActor::first_rank(const ConfigurationOrders& orders) const {
  return first_rank_of(orders.configuration().shape.mesh, context_.replica);
}

void ReplicaActor::begin(const std::shared_ptr<const ConfigurationOrders>& orders) {
  if (halted_) return;  // the configuration was given up while its orders were made
  orders_ = orders;
  scheduler_ = caf::actor_cast<caf::actor>(current_sender());
  committed_ = orders->step();
  int rank = first_rank(*orders);
  for (const RankHandle& handle : context_.ranks) {
    orders->send(*this, handle.actor, rank++);
    liveness_.watch(handle.incarnation);
  }
  send(context_.director,
       RanksWatched{.configuration = orders->configuration().number, .replica = context_.replica});
}

void ReplicaActor::halt(const Halt& order) {
  halted_ = true;
  liveness_.forget_all();  // the director watches over them now
  pass_on(order);
}

ReplicaPart ReplicaActor::part() const {
  const Configuration& configuration = orders_->configuration();
  return {.configuration = configuration.number,
          .replica = context_.replica,
          .first_rank = first_rank_of(configuration.shape.mesh, context_.replica),
          .ranks_of_replica = static_cast<int>(context_.ranks.size()),
          .num_ranks = configuration.num_ranks(),
          .num_chunks = static_cast<int>(configuration.shape.layout.chunks.size()),
          .committed = committed_};
}

template <typename Answer>
void ReplicaActor::take(const Answer& answer, const char* name) {
  if (!orders_ || halted_ || answer.configuration < orders_->configuration().number) return;
  const std::string why = fault_in(answer, part());
  if (why.empty()) return add(answer);
  send(context_.director,
       ReportRefused{.sender = sender_name(), .why = std::string(name) + " with " + why});
}

std::string ReplicaActor::sender_name() {
  int rank = first_rank(*orders_);
  for (const RankHandle& handle : context_.ranks) {
    if (handle.actor == current_sender()) return name_of(orders_->configuration().shape, rank);
    ++rank;
  }
  return "an unknown process";
}

void ReplicaActor::on_heartbeat(const Heartbeat& beat) {
  if (const std::string why = fault_in(beat); !why.empty())
    return send(context_.director, ReportRefused{.sender = orders_ ? sender_name() : "a rank",
                                                 .why = "Heartbeat with " + why});
  liveness_.on_heartbeat(beat);
  if (orders_ && !halted_)
    show_activity(beat, orders_->configuration(), committed_, context_.hub, context_.board);
}

void ReplicaActor::watch_over_ranks() {
  for (const WorkerFailed& silent : liveness_.tick(now_s())) send(context_.director, Event{silent});
}

template <typename Order>
void ReplicaActor::pass_on(const Order& order) {
  for (const RankHandle& rank : context_.ranks) send(rank.actor, order);
}

/// Publishes what a rank has seen of a step to the monitors.
template <typename Body>
void ReplicaActor::add(const Observation<Body>& seen) {
  context_.hub.publish({.configuration = seen.configuration,
                        .step = seen.step,
                        .rank = seen.rank,
                        .body = seen.body});
}

void ReplicaActor::add(const TracedActions& seen) {
  TracedActions traced = seen;
  traced.body.clock = context_.processes.clock_of(context_.ranks[index_of(seen.rank)].incarnation);
  if (context_.hub.wanted<ActionsTraced>()) add<ActionsTraced>(traced);
  send(scheduler_, std::move(traced));
}

void ReplicaActor::add(const Ready& answer) {
  if (!ready_.add(index_of(answer.rank), answer)) return;
  ReplicaReady all{.configuration = answer.configuration, .replica = context_.replica};
  for (const Ready& ready : ready_.answers()) {
    all.move_s = std::max(all.move_s, ready.move_s);
    if (all.difference.empty())
      all.difference = difference_of(ready, orders_->configuration().shape);
  }
  send(context_.director, Event{all});
}

void ReplicaActor::add(const Prepared& answer) {
  for (const LargeGradient& large : answer.large)
    context_.hub.publish({.configuration = answer.configuration,
                          .step = answer.step,
                          .rank = answer.rank,
                          .body = large});
  if (!prepared_.add(index_of(answer.rank), answer)) return;
  const auto& votes = prepared_.answers();
  send(
      context_.director,
      ReplicaVote{.sum = aggregate_votes(context_.replica, votes, ready_.answers(),
                                         orders_->configuration().shape.mesh, *context_.parameters),
                  .measured = std::make_shared<StepReport::Measured>(
                      measured(orders_->configuration().shape.mesh, votes))});
}

void ReplicaActor::add(const Copied& answer) {
  if (!copied_.add(index_of(answer.rank), answer)) return;
  send(context_.director, Event{ReplicaCopied{.configuration = answer.configuration,
                                              .step = answer.step,
                                              .replica = context_.replica}});
}

void ReplicaActor::add(const Saved& answer) {
  if (!saved_.add(index_of(answer.rank), answer)) return;
  ReplicaSaved all{.configuration = answer.configuration,
                   .step = answer.step,
                   .replica = context_.replica,
                   .error = ""};
  for (const Saved& saved : saved_.answers()) {
    const bool is_worse = saved.for_good && !all.for_good;
    if (all.error.empty() || is_worse) all.error = saved.error;
    all.for_good |= saved.for_good;
  }
  send(context_.director, Event{all});
}

/// Adds a rank's answer to the round of its batch: two batches at most are ordered at a time, and
/// a rank may have finished the second when others have not finished the first.
void ReplicaActor::add(const Evaluated& answer) {
  auto& round = evaluated_[static_cast<std::size_t>(answer.batch % 2)];
  if (!round.add(index_of(answer.rank), answer)) return;
  ReplicaEvaluated all{.configuration = answer.configuration,
                       .step = answer.step,
                       .batch = answer.batch,
                       .replica = context_.replica,
                       .targets = answer.targets};
  for (const Evaluated& evaluated : round.answers()) all.loss_sum += evaluated.loss_sum;
  send(context_.director, Event{all});
}

void ReplicaActor::on_failure(const std::string& what) {
  send(context_.director,
       Event{
           DirectorFailed{.message = "replica " + std::to_string(context_.replica) + ": " + what}});
}

/// Reports a rank that could not read its order as failed; errors from other senders are ignored.
void ReplicaActor::on_error_of_peer(const std::string& what) {
  for (const RankHandle& rank : context_.ranks)
    if (rank.actor == current_sender())
      send(context_.director,
           Event{WorkerFailed{.incarnation = rank.incarnation, .message = "the error " + what}});
}

void ReplicaActor::on_down(const caf::actor_addr& who) {
  for (const RankHandle& rank : context_.ranks)
    if (rank.actor.address() == who)
      send(context_.director,
           Event{WorkerFailed{.incarnation = rank.incarnation,
                              .message = "its connection to the launcher is gone",
                              .symptom = true}});
}

}  // namespace troupe::actors
