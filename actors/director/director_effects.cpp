#include <fmt/format.h>

#include <caf/io/middleman.hpp>
#include <set>
#include <utility>

#include "actors/director/director.h"
#include "actors/director/scheduler_actor.h"
#include "actors/director/step_report.h"
#include "actors/topology/assembly.h"
#include "actors/topology/reports/reports.h"
#include "stages/decoder/stage/optimizer.h"
#include "stages/files/checkpoint/checkpoint.h"
#include "tensor/errors/error.h"

// How the director performs the effects of its protocol.

namespace troupe::actors {
namespace {

constexpr const char* kInLog = "; ";

Pipeline pipeline_of(const RunSpec& spec, const ClusterShape& shape) {
  Pipeline pipeline{.pp = shape.mesh.pp,
                    .dp = shape.mesh.dp,
                    .tp = shape.mesh.tp,
                    .ep = shape.mesh.ep > 1 ? shape.mesh.ep : 0,
                    .dp_of_stage = {},
                    .tp_of_stage = {},
                    .stage_of_chunk = {},
                    .copies = shape.layout.copies(),
                    .microbatches = spec.batch.microbatches(shape.mesh.dp)};
  for (const auto& [dp, tp] : shape.mesh.widths) {
    pipeline.dp_of_stage.push_back(dp);
    pipeline.tp_of_stage.push_back(tp);
  }
  for (const auto& chunk : shape.layout.chunks) pipeline.stage_of_chunk.push_back(chunk.stage);
  return pipeline;
}

}  // namespace

void Director::perform(const KillWorker& effect) {
  delayed_.erase(effect.incarnation);
  context_.processes.kill(effect.incarnation);
}

void Director::perform(const ReportWorkerLost& effect) {
  // If the loss ends the run, the reason of the end contains the cause.
  if (!effect.ends_run) context_.observer.on_event(effect.cause);
  if (!effect.has_part) return;
  context_.board.write([&](RunStatus& status) {
    if (!status.hosts.empty()) status.failure = effect.cause;
    std::vector<int> ranks = effect.others;
    ranks.push_back(effect.rank);
    for (const int rank : ranks) {
      if (rank < 0 || rank >= static_cast<int>(status.ranks.size())) continue;
      RankStatus& lost = status.ranks[static_cast<std::size_t>(rank)];
      lost.state = "lost";
      lost.waiting_for.clear();
      lost.resident_bytes = 0;
      lost.allocated = {};
    }
  });
  if (const auto detect_s = recovery_.lost(last_sign_, effect.rank, effect.cause))
    tell(FailureDetected{.cause = effect.cause, .detect_s = *detect_s}, effect.rank);
}

void Director::perform(const ReportHost& effect) {
  const std::string state(kHostStates.at(static_cast<std::size_t>(effect.state)));
  context_.observer.on_hosts();  // who sees the event finds them recorded
  context_.observer.on_event(fmt::format("host {}: {}{}", effect.host, state,
                                         effect.cause.empty() ? "" : ": " + effect.cause));
  context_.board.write([&](RunStatus& status) {
    auto host = std::ranges::find(status.hosts, effect.host, &HostStatus::host);
    if (host == status.hosts.end()) host = status.hosts.insert(host, {.host = effect.host});
    host->state = state;
    host->cause = effect.cause;
    host->losses += effect.state == HostState::lost ? 1 : 0;
  });
  tell(HostChanged{.host = effect.host, .state = state, .cause = effect.cause});
  if (effect.state == HostState::draining) context_.processes.let_go(effect.host);
}

void Director::perform(const ReportGivenUp& effect) {
  announce(fmt::format("given up: {}: {}", effect.change, effect.why));
}

void Director::perform(const OrderHalt& effect) {
  const Halt& halt = effect.halt;
  order_all(halt);  // sent the way of all orders, so that an earlier commit arrives before it
  const Configuration& configuration = protocol_.configuration();
  for (const auto& [rank, member] : configuration.members) liveness_.watch(member.incarnation);
  for (const auto& [incarnation, worker] : workers_)
    if (const int rank = configuration.rank_of(incarnation);
        replicas_.empty() || rank < 0 || rank >= configuration.num_ranks())
      send(worker, halt);
  // An order that is given up for now has become a part of what stands in its way.
  if (effect.change.empty() && ordered_.running()) {
    if (!recovery_.running()) recovery_ = ordered_;
    ordered_ = {};
  }
  if (!effect.change.empty()) ordered_.halting(effect.change, "");
  if (effect.change.empty() || recovery_.running()) recovery_.halting("", halt.reason);
  tell(PhaseBegun{.phase = "spawn"});
}

void Director::perform(const OrderWarmUp& effect) {
  for (std::size_t rank = 0; rank < effect.assignment.size(); ++rank)
    send(workers_.at(effect.assignment[rank]),
         WarmUp{.order = effect.order, .rank = static_cast<int>(rank), .shape = effect.shape});
}

void Director::perform(const WarmUpSpare& effect) {
  send(workers_.at(effect.incarnation), WarmUp{.any_rank = true, .shape = effect.shape});
}

void Director::perform(const ReportWentBack& effect) {
  const std::string from = origin_of(effect.way.back_to, effect.from_memory);
  context_.observer.on_event(fmt::format("{}, from {}", to_string(effect.way), from));
  tell(WentBack{.way = effect.way, .from = from});
}

void Director::perform(const StartConfiguration& effect) {
  const bool changes = ordered_.running() || recovery_.running();
  const std::string from = origin_of(effect.state.step, effect.state.from_memory);
  for (RecoveryClock* clock : {&ordered_, &recovery_})
    if (clock->running()) clock->begins(from);
  if (shape_.empty()) shape_ = to_string(effect.configuration.shape);
  list_ranks(effect.configuration);
  const RunStatus listed = context_.board.read();
  tell(MembershipChanged{.pipeline = listed.pipeline,
                         .schedule = effect.configuration.shape.schedule.kind,
                         .ranks = listed.ranks});
  if (changes) tell(PhaseBegun{.phase = "move"});
  for (const auto& replica : replicas_) send_exit(replica, caf::exit_reason::user_shutdown);
  replicas_.clear();
  const RunSpec::Mesh mesh = effect.configuration.shape.mesh;
  measured_.assign(static_cast<std::size_t>(mesh.dp), {});
  groups_ = GroupsState::none;
  begin(effect);
}

void Director::begin(const StartConfiguration& order) {
  const auto& [configuration, state, saves_only] = order;
  const auto self = caf::actor_cast<caf::actor>(this);
  std::vector<RankHandle> members;
  for (const auto& [rank, member] : configuration.members)
    members.push_back(
        {.actor = workers_.at(member.incarnation), .incarnation = member.incarnation});
  const RunSpec::Mesh& mesh = configuration.shape.mesh;
  for (int replica = 0; replica < mesh.dp; ++replica) {
    const auto first = members.begin() + first_rank_of(mesh, replica);
    replicas_.push_back(spawn<ReplicaActor>(ReplicaContext{
        .replica = replica,
        .ranks = std::vector<RankHandle>(first, first + mesh.ranks_of_replica(replica)),
        .parameters = parameters_,
        .recovery = context_.spec.recovery,
        .hears_host = hears_host(),
        .cpu_seconds = cpu_seconds(),
        .director = self,
        .hub = context_.hub,
        .board = context_.board,
        .processes = context_.processes}));
  }
  const bool own = !state.from_memory && protocol_.saved() == state.step;
  const bool anew = own || context_.spec.checkpoint.resume.empty();
  PlanConfiguration request;
  request.whole = {.configuration = configuration,
                   .start = {.state = state,
                             .checkpoint = own ? checkpoint_path(context_.spec, state.step)
                                               : context_.spec.checkpoint.resume,
                             .weights_only = !anew && context_.spec.checkpoint.weights_only,
                             .sample_origin = context_.sample_origin,
                             .saves_only = saves_only}};
  request.replicas = replicas_;
  for (int i = configuration.num_ranks(); i < configuration.members.size(); ++i)
    request.leaving[i] = members[static_cast<std::size_t>(i)].actor;
  if (!scheduler_) scheduler_ = spawn<SchedulerActor>(context_.spec, context_.memory_bytes, self);
  send(scheduler_, std::move(request));
}

void Director::perform(const ReportConfiguration& effect) {
  const bool catches_up = protocol_.catch_up().has_value();
  if (ordered_.running()) ordered_.reached(effect.move_s, false);
  if (recovery_.running()) recovery_.reached(effect.move_s, catches_up);
  if (ordered_.running() || recovery_.running())
    tell(PhaseBegun{.phase = catches_up && !ordered_.running() ? "catch up" : "first step"});
  step_begin_s_ = now_s();
}

void Director::perform(const OrderLeave& effect) {
  liveness_.forget(effect.incarnation);
  if (const auto found = workers_.find(effect.incarnation); found != workers_.end())
    send(found->second, Finish{.reason = "no longer needed"});
}

void Director::list_ranks(const Configuration& configuration) {
  context_.board.write([&](RunStatus& status) {
    status.pipeline = pipeline_of(context_.spec, configuration.shape);
    status.ranks.clear();
    for (int rank = 0; rank < configuration.num_ranks(); ++rank) {
      const Member& member = configuration.members.at(rank);
      const RankPlace place = place_of(configuration.shape.mesh, rank);
      status.ranks.push_back(
          {.rank = rank,
           .replica = place.replica,
           .stage = place.stage,
           .shard = place.shard,
           .pid = member.pid,
           .host = member.host,
           .gpu = member.gpu.index < 0 ? std::nullopt : std::optional(member.gpu),
           .state = "preparing",
           .waiting_for = ""});
    }
  });
}

/// Whether collectives of the next step are the devices' own: as soon as all ranks that have groups
/// have said in their votes that they are ready. From then on they stay so. The first step of a
/// configuration is staged for that: in it cuBLASLt and cuDNN load what they need, which beside a
/// collective that waits for other GPUs would deadlock.
bool Director::own_groups() {
  if (groups_ == GroupsState::own) return true;
  bool are_staged = false, are_ready = true;
  for (const auto& replica : measured_) {
    if (!replica) return false;  // no step of this configuration yet
    for (const StepReport::StageTime& rank : replica->stages) {
      are_staged |= rank.groups != GroupsState::none;
      are_ready &= rank.groups != GroupsState::staged;
    }
  }
  if (!are_staged) return false;
  const GroupsState state = are_ready ? GroupsState::own : GroupsState::staged;
  if (std::exchange(groups_, state) != state) tell_of_groups(state);
  return are_ready;
}

void Director::tell_of_groups(GroupsState state) {
  const std::string text = state == GroupsState::own ? "nccl" : "staged";
  context_.board.write([&](RunStatus& status) {
    for (RankStatus& rank : status.ranks) rank.collectives = text;
  });
  tell(GroupsChanged{.collectives = text});
}

void Director::perform(const OrderStep& effect) {
  if (effect.step == context_.first_step + 1) step_begin_s_ = now_s();
  // A step that is ordered ahead of a commit does not know yet which samples that step has left.
  const bool knows_taps = tapped_ <= protocol_.committed();
  std::vector<TapRequest> taps = knows_taps ? context_.hub.taps() : std::vector<TapRequest>();
  if (!taps.empty()) tapped_ = effect.step;
  order_all(RunStep{.configuration = protocol_.configuration().number,
                    .step = effect.step,
                    .trace = context_.hub.wanted<ActionsTraced>() || scheduler_measures_,
                    .own_groups = own_groups(),
                    .taps = std::move(taps)});
}

void Director::perform(const OrderCommit& effect) {
  order_all(Commit{.configuration = protocol_.configuration().number,
                   .step = effect.step,
                   .clip_factor = effect.clip_factor,
                   .loss = effect.loss,
                   .grad_norm = effect.grad_norm,
                   .targets = effect.targets});
  const StepReport step = report(effect);
  send(scheduler_, StepDone{.configuration = protocol_.configuration().number,
                            .step = effect.step,
                            .seconds = step.step_s});
  const bool again = effect.step <= reported_;
  if (again) {
    const CatchUp way = protocol_.newest_way();
    context_.observer.on_step_again(step, way);
    tell(StepAgain{.report = step, .way = way}, -1, step.step);
  } else {
    reported_ = effect.step;
    context_.observer.on_step(step);
    tell(StepCommitted{.report = step}, -1, step.step);
  }
  if (ordered_.running()) report_ordered(effect.step);
  if (!recovery_.running()) return;
  if (!again) return report_recovered(effect.step);
  if (effect.step < reported_) return;
  recovery_.caught_up();
  tell(PhaseBegun{.phase = "first step"});
}

ChangeReport Director::end_change(RecoveryClock& clock, std::int64_t step) {
  ChangeReport change = clock.finish();
  limits_.took_change(change.stall_s);
  change.step = step;
  change.before = std::exchange(shape_, to_string(protocol_.configuration().shape));
  change.after = shape_;
  context_.observer.on_event(to_string(change, kInLog));
  return change;
}

void Director::report_ordered(std::int64_t step) {
  change_ = end_change(ordered_, step);
  const ClusterShape& shape = protocol_.configuration().shape;
  // A shape that is small because hosts are left is not what anybody asked for.
  context_.observer.on_scaled(shape, shape == protocol_.wanted());
  tell(Rescaled{.cause = change_.order, .phases = change_.phases, .stall_s = change_.stall_s}, -1,
       step);
}

void Director::report_recovered(std::int64_t step) {
  const ChangeReport change = end_change(recovery_, step);
  if (change.before != change.after)
    context_.observer.on_scaled(protocol_.configuration().shape, false);
  if (change.recovery)
    tell(Recovered{.cause = change.cause,
                   .from = change.from,
                   .phases = change.phases,
                   .stall_s = change.stall_s},
         change.rank, step);
}

/// What follows from a step's commit alone.
StepReport Director::basic_report(const CommittedStep& commit) const {
  const RunSpec& spec = context_.spec;
  return {.step = commit.step,
          .loss = commit.loss,
          .grad_norm = commit.grad_norm,
          .lr = stages::learning_rate(spec.optimizer, commit.step),
          .tokens = commit.targets,
          .first_sample = context_.sample_origin + (commit.step - 1) * spec.batch.global};
}

StepReport Director::report(const OrderCommit& commit) {
  const double now = now_s();
  StepReport step = basic_report({.step = commit.step,
                                  .loss = commit.loss,
                                  .grad_norm = commit.grad_norm,
                                  .targets = commit.targets});
  step.sources = losses_of(context_.spec.data.sources, measured_);
  step.routers = routers_of(measured_);
  step.aux_loss = aux_loss_of(context_.spec.model, step.routers);
  step.step_s = now - std::exchange(step_begin_s_, now);
  limits_.took_step(step.step_s);
  step.replicas = measured_;
  context_.board.set_measured(measured_);
  return step;
}

void Director::perform(const StartTimer& effect) {
  delayed_send(this, to_milliseconds(effect.seconds), Event{TimerRang{.timer = effect.timer}});
}

void Director::perform(const StartGrowTimer& effect) {
  delayed_send(this, to_milliseconds(effect.seconds), Event{GrowTimerRang{.timer = effect.timer}});
}

void Director::perform(const ReportUnsaved& effect) {
  context_.observer.on_not_saved(effect.step, effect.error);
  tell(Note{.text = fmt::format("step {} could not be saved: {}", effect.step, effect.error)});
}

void Director::perform(const ReportRepair& effect) {
  announce(effect.difference + "; it has been given those weights");
}

/// Reports a text for people to the observer and the monitors.
void Director::announce(const std::string& text) {
  context_.observer.on_event(text);
  tell(Note{.text = text});
}

void Director::perform(const Finish& finish) {
  forget_delayed();
  order_all(finish);
  std::set<std::uint64_t> asked;
  if (!replicas_.empty())
    for (const auto& [rank, member] : protocol_.configuration().members)
      asked.insert(member.incarnation);
  for (const auto& [incarnation, worker] : workers_) {
    liveness_.forget(incarnation);
    if (!asked.contains(incarnation)) send(worker, finish);
  }
  if (replicas_.empty())
    // If no configuration has begun, some workers may not have joined and cannot be asked.
    context_.processes.kill_all();
}

void Director::perform(const KillWorkers&) {
  context_.processes.kill_all();
}

void Director::perform(const End& effect) {
  for (const auto& replica : replicas_) send_exit(replica, caf::exit_reason::user_shutdown);
  for (const auto& helper : {scheduler_, context_.checkpoints})
    if (helper) send_exit(helper, caf::exit_reason::user_shutdown);
  tell(RunEnded{.outcome = effect.outcome});
  context_.on_end(effect.outcome);
  quit();
}

}  // namespace troupe::actors
