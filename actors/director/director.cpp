#include "actors/director/director.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "actors/director/scheduler_actor.h"
#include "actors/messages/message_checks.h"
#include "actors/messages/secret.h"
#include "actors/topology/assembly.h"
#include "stages/decoder/stage/optimizer.h"

namespace troupe::actors {
namespace {

RecoveryClock::Time time_at(double seconds) {
  return RecoveryClock::Time(std::chrono::duration_cast<std::chrono::steady_clock::duration>(
      std::chrono::duration<double>(seconds)));
}

/// The error kind with this code. A code that no kind has counts as internal, the worst one.
ErrorKind error_kind_of(int code) {
  for (const ErrorKind kind : {ErrorKind::usage, ErrorKind::data, ErrorKind::unavailable,
                               ErrorKind::manifest, ErrorKind::retry})
    if (code == static_cast<int>(kind)) return kind;
  return ErrorKind::internal;
}

/// What RunStatus::state says of each DirectorProtocol::Phase, in their order.
constexpr std::array kStates{"starting",   "starting", "running", "saving",
                             "evaluating", "stopping", "ended"};

}  // namespace

Director::Director(caf::actor_config& config, DirectorContext context)
    : ControlActor(config),
      context_(std::move(context)),
      protocol_(context_.spec, {.first_step = context_.first_step,
                                .saved_step = context_.saved_step,
                                .seed = random_u64(),
                                .left = context_.left,
                                .left_by = context_.predecessor.fate,
                                .reported = context_.predecessor.reported,
                                .evaluated = context_.predecessor.evaluated}),
      parameters_(std::make_shared<std::vector<stages::ParameterInfo>>(
          stages::parameters_of(context_.spec.model))),
      liveness_(context_.spec.recovery, hears_host(), cpu_seconds()),
      reported_(context_.left.empty() ? context_.first_step : context_.predecessor.reported) {
  limits_.set("", context_.ends_s, now_s());
}

caf::behavior Director::make_behavior() {
  delayed_send(this, kLivenessTick, Tick{});
  return behavior_of<DirectorRef>(
      {
          [this](const Hello& hello) { return welcome(hello); },
          [this](const Join& message) { join(message); },
          [this](const Rejoin& message) { rejoin(message); },
          [this](const Heartbeat& beat) { on_heartbeat(beat); },
          [this](const Halted& answer) { handle(answer); },
          [this](const Warm& answer) { handle(answer); },
          [this](const Failed& failure) { failed(failure); },
      },
      {
          [this](const SpawnDue& due) { start_due(due.incarnation); },
          [this](const ScaleOrder& order) { ordered(order); },
          [this](const SaveOrder& order) { ordered(order); },
          [this](const WaysTried& tried) { on_tried(tried); },
          [this](const RanksWatched& by) { on_ranks_watched(by); },
          [this](const ReportRefused& message) { perform(message); },
          [this](const ReplicaVote& vote) { on_vote(vote); },
          [this](const Tuner::Advice& advice) { on_advice(advice); },
          [this](const CheckpointFinished& checkpoint) { finished(checkpoint); },
          [this](const Note& note) { announce(note.text); },
          [this](const MeasureActions& measure) { scheduler_measures_ = measure.on; },
          [this](const Event& event) {
            if (const auto* host = std::get_if<HostJoined>(&event))
              limits_.set(host->host.name, host->ends_s, now_s());
            handle(event);
          },
          [this](Tick) {
            watch_over_workers();
            leave_in_time();
            watch_over_ways();
            report_own_activity();
            delayed_send(this, kLivenessTick, Tick{});
          },
      });
}

void Director::on_exit() {
  workers_.clear();
  replicas_.clear();
  scheduler_ = context_.checkpoints = nullptr;
  scale_orders_.clear();
  save_orders_.clear();
}

// --- workers join and live

caf::result<Welcome> Director::welcome(const Hello& hello) {
  if (!equal_secrets(hello.token, context_.token)) return caf::sec::unexpected_message;
  if (hello.version != kProtocolVersion) return caf::sec::incompatible_versions;
  return Welcome{.manifest = context_.manifest, .director = caf::actor_cast<caf::actor>(this)};
}

void Director::join(const Join& message) {
  if (!equal_secrets(message.token, context_.token) || !current_sender()) return;
  if (!protocol_.roster().expects(message.member.incarnation))
    return perform(ReportRefused{.sender = "an unknown process",
                                 .why = "Join of a worker that is not expected"});
  workers_[message.member.incarnation] = caf::actor_cast<StageRef>(current_sender());
  liveness_.watch(message.member.incarnation);
  handle(MemberJoined{.member = message.member});
  if (!protocol_.roster().expects_any()) close_join_port();
}

void Director::on_heartbeat(const Heartbeat& beat) {
  if (const std::string why = fault_in(beat); !why.empty())
    return perform(ReportRefused{.sender = sender_name(), .why = "Heartbeat with " + why});
  liveness_.on_heartbeat(beat);
  show_activity(beat, protocol_.configuration(), protocol_.committed(), context_.hub,
                context_.board);
}

/// Stops watching the ranks of a replica, because its actor watches them from now on; ignored if
/// they were ordered to halt.
void Director::on_ranks_watched(const RanksWatched& by) {
  const Configuration& configuration = protocol_.configuration();
  if (by.configuration != configuration.number ||
      protocol_.phase() == DirectorProtocol::Phase::gathering)
    return;
  const RunSpec::Mesh& mesh = configuration.shape.mesh;
  const int first = first_rank_of(mesh, by.replica);
  for (int i = 0; i < mesh.ranks_of_replica(by.replica); ++i)
    liveness_.forget(configuration.members.at(first + i).incarnation);
}

void Director::failed(const Failed& failure) {
  const ErrorKind kind = error_kind_of(failure.kind);
  // A missing peer is rarely the first cause, so the protocol waits for a better one.
  handle(WorkerFailed{.incarnation = failure.incarnation,
                      .configuration = failure.configuration,
                      .kind = kind,
                      .message = failure.message,
                      .symptom = kind == ErrorKind::unavailable,
                      .of_gpu = failure.of_gpu,
                      .now_s = now_s()});
}

void Director::on_vote(const ReplicaVote& vote) {
  const ReplicaPrepared& sum = vote.sum;
  if (sum.configuration != protocol_.configuration().number) return;
  if (sum.replica >= 0 && sum.replica < std::ssize(measured_))
    measured_[static_cast<std::size_t>(sum.replica)] = vote.measured;
  if (!sum.not_finite.empty()) tell(NotFinite{.where = sum.not_finite}, -1, sum.step);
  handle(sum);
}

Liveness::HearsHost Director::hears_host() const {
  return [&processes = context_.processes](std::uint64_t worker) {
    return processes.hears_host_of(worker);
  };
}

Liveness::CpuSeconds Director::cpu_seconds() const {
  return [&processes = context_.processes](std::uint64_t worker) {
    return processes.cpu_seconds(worker);
  };
}

void Director::watch_over_workers() {
  for (const std::uint64_t newborn : liveness_.expected())
    liveness_.worked(newborn, context_.processes.cpu_seconds(newborn));
  for (const WorkerFailed& silent : liveness_.tick(now_s())) handle(silent);
}

/// Leaves hosts before they are taken away.
void Director::leave_in_time() {
  std::vector<std::string> due = limits_.due(now_s());
  if (!due.empty())
    handle(HostsDraining{.names = std::move(due), .cause = "its time limit is near"});
}

void Director::report_own_activity() {
  if (context_.hub.wanted<DirectorActivity>())
    tell(DirectorActivity{.mailbox_depth = mailbox().size(), .handler_s = handler_s_});
  handler_s_.clear();
}

void Director::perform(const ReportRefused& message) {
  ++refused_;
  context_.board.write([this](RunStatus& status) { status.refused = refused_; });
  // Reported only when the count doubles, so that one worker cannot fill the log.
  if ((refused_ & (refused_ - 1)) == 0)
    announce(fmt::format("refused from {}: {}; {} message{} refused so far", message.sender,
                         message.why, refused_, refused_ == 1 ? "" : "s"));
}

std::optional<std::uint64_t> Director::sender() {
  for (const auto& [incarnation, worker] : workers_)
    if (worker == current_sender()) return incarnation;
  return std::nullopt;
}

std::string Director::sender_name() {
  const auto incarnation = sender();
  return incarnation ? protocol_.name_of_worker(*incarnation) : "an unknown process";
}

void Director::on_advice(const Tuner::Advice& advice) {
  announce(advice.text);
  if (!advice.order) return;
  ordered({.request = *advice.order, .answer = [this](const ScaleAnswer& answer) {
             if (answer.code != 0) announce("auto: " + answer.text);
           }});
}

// --- events and effects

void Director::handle(Event event) {
  const double now = now_s();
  if (!std::holds_alternative<TimerRang>(event) && !std::holds_alternative<GrowTimerRang>(event))
    ways_.progressed();
  std::visit(
      [&](auto& e) {
        if constexpr (requires { e.now_s; }) {
          if (e.now_s == 0) e.now_s = now;
          last_sign_ = time_at(e.now_s);
        }
      },
      event);
  const auto effects = protocol_.on(event);
  publish_status();
  try {
    for (const Effect& effect : effects) std::visit([this](const auto& e) { perform(e); }, effect);
  } catch (const std::exception& e) {
    on_failure(text_of(e));
  }
  if (context_.hub.wanted<DirectorActivity>()) handler_s_.push_back(now_s() - now);
}

void Director::publish_status() {
  context_.board.write([this](RunStatus& status) {
    const bool has_run = !status.state.empty() && status.state != "starting";
    status.state = kStates.at(static_cast<std::size_t>(protocol_.phase()));
    if (status.state == "starting" && has_run) status.state = "regrouping";
    if (status.state == "running") status.failure.clear();
    if (protocol_.stopping() && status.state == "running") status.state = "stopping";
    status.step = protocol_.committed();
    status.max_steps = context_.spec.max_steps;
    status.configuration = protocol_.configuration().number;
    status.evaluated = protocol_.evaluated();
    status.saving = protocol_.writing();
    status.catch_up = protocol_.catch_up();
    if (status.catch_up && status.state == "running") status.state = "catching up";
  });
}

void Director::tell(EventBody body, int rank, std::int64_t step) {
  context_.hub.publish({.configuration = protocol_.configuration().number,
                        .step = step < 0 ? protocol_.committed() : step,
                        .rank = rank,
                        .body = std::move(body)});
}

/// Any process that finds the port can send an error. A worker sends one for an order that it
/// cannot read; it will not answer that order, so it counts as failed.
void Director::on_error_of_peer(const std::string& what) {
  const auto incarnation = sender();
  if (!incarnation)
    return perform(ReportRefused{.sender = "an unknown process", .why = "the error " + what});
  handle(WorkerFailed{.incarnation = *incarnation, .message = "the error " + what});
}

void Director::on_failure(const std::string& what) {
  handle(DirectorFailed{.message = what});
}

/// Where a configuration's state comes from (ChangeReport::from).
std::string Director::origin_of(std::int64_t step, bool from_memory) const {
  if (from_memory) return "memory";
  const bool resumes = !context_.spec.checkpoint.resume.empty();
  return resumes || protocol_.saved() == step ? "checkpoint" : "start";
}

}  // namespace troupe::actors
