#include "actors/director.h"

#include <caf/io/middleman.hpp>
#include <utility>

#include "actors/assembly.h"
#include "actors/scheduler_actor.h"
#include "actors/secret.h"
#include "stages/checkpoint.h"
#include "stages/optimizer.h"

namespace troupe::actors {
namespace {

struct Tick {};
constexpr std::chrono::seconds kTick{1};
/// A joined worker whose stage actor says nothing for this many ticks is lost. Counted in ticks of
/// the director, so that a machine that sleeps accuses nobody.
constexpr int kSilentTicks = 30;

std::vector<std::uint64_t> random_incarnations(int count) {
  std::vector<std::uint64_t> values;
  for (int i = 0; i < count; ++i) values.push_back(random_u64());
  return values;
}

const char* state_name(DirectorProtocol::Phase phase) {
  using Phase = DirectorProtocol::Phase;
  switch (phase) {
    case Phase::gathering:
    case Phase::preparing:
      return "starting";
    case Phase::running:
      return "running";
    case Phase::saving:
    case Phase::publishing:
      return "saving";
    case Phase::evaluating:
      return "evaluating";
    case Phase::ending:
      return "stopping";
    case Phase::ended:
      return "ended";
  }
  return "?";
}

}  // namespace
}  // namespace troupe::actors

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::actors::Tick)

namespace troupe::actors {

Director::Director(caf::actor_config& config, DirectorContext context)
    : ControlActor(config),
      context_(std::move(context)),
      protocol_(context_.spec, context_.first_step, context_.saved_step,
                random_incarnations(context_.spec.num_ranks())),
      parameters_(stages::parameters_of(context_.spec.model)),
      ready_(static_cast<std::size_t>(context_.spec.mesh.dp)),
      prepared_(static_cast<std::size_t>(context_.spec.mesh.dp)),
      silent_ticks_(static_cast<std::size_t>(context_.spec.num_ranks()), 0) {}

caf::behavior Director::make_behavior() {
  delayed_send(this, kTick, Tick{});
  return {
      [this](const DoorOpen& door) {
        port_ = door.port;
        handle(Started{});
      },
      [this](const Hello& hello) { return welcome(hello); },
      [this](const Join& message) { join(message); },
      [this](const Heartbeat& beat) { heard(beat); },
      [this](const OfReplica<Ready>& all) {
        ready_[static_cast<std::size_t>(all.replica)] = all;
        handle(ReplicaReady{.epoch = all.answers.front().epoch, .replica = all.replica});
      },
      [this](const OfReplica<Prepared>& all) {
        const auto replica = static_cast<std::size_t>(all.replica);
        prepared_[replica] = all;
        handle(tally(all, ready_[replica], parameters_));
      },
      [this](const OfReplica<Saved>& all) {
        const Saved& first = all.answers.front();
        handle(ReplicaSaved{.epoch = first.epoch, .step = first.step, .replica = all.replica});
      },
      [this](const OfReplica<Evaluated>& all) {
        ReplicaEvaluated sum{.epoch = all.answers.front().epoch,
                             .step = all.answers.front().step,
                             .replica = all.replica};
        for (const auto& answer : all.answers) sum.loss_sum += to_double(answer.loss_sum);
        handle(sum);
      },
      [this](const Event& event) { handle(event); },
      [this](Tick) {
        count_silence();
        delayed_send(this, kTick, Tick{});
      },
  };
}

void Director::on_exit() {
  stages_.clear();
  replicas_.clear();
  scheduler_ = nullptr;
}

// --- workers join

caf::result<Welcome> Director::welcome(const Hello& hello) {
  if (!equal_secrets(hello.token, context_.token)) return caf::sec::unexpected_message;
  if (hello.version != kProtocolVersion) return caf::sec::incompatible_versions;
  return Welcome{.manifest = context_.manifest};
}

void Director::join(const Join& message) {
  if (!equal_secrets(message.token, context_.token) || !current_sender()) return;
  stages_[message.member.rank] = caf::actor_cast<caf::actor>(current_sender());
  handle(MemberJoined{.member = message.member});
}

void Director::heard(const Heartbeat& beat) {
  if (beat.rank < 0 || beat.rank >= static_cast<int>(silent_ticks_.size())) return;
  silent_ticks_[static_cast<std::size_t>(beat.rank)] = 0;
  context_.board.write([&](RunStatus& status) {
    for (RankStatus& rank : status.ranks)
      if (rank.rank == beat.rank) {
        rank.state = beat.state;
        rank.waiting_for = beat.waiting_for;
      }
  });
}

void Director::count_silence() {
  for (const auto& [rank, stage] : stages_) {
    int& ticks = silent_ticks_.at(static_cast<std::size_t>(rank));
    if (++ticks == kSilentTicks)
      handle(RankFailed{.rank = rank,
                        .message = "its stage actor has said nothing for " +
                                   std::to_string(kSilentTicks) + " s"});
  }
}

// --- events and effects

void Director::handle(const Event& event) {
  const auto effects = protocol_.on(event);
  publish_status();
  try {
    for (const Effect& effect : effects) std::visit([this](const auto& e) { perform(e); }, effect);
  } catch (const std::exception& e) {
    on_failure(e.what());
  }
}

void Director::perform(const SpawnWorker& effect) {
  context_.processes.spawn(
      {.host = "127.0.0.1",
       .port = port_,
       .token = context_.token,
       .rank = effect.rank,
       .incarnation = effect.incarnation,
       .log_dir = context_.spec.dir + "/logs/rank-" + std::to_string(effect.rank)});
}

void Director::perform(const StartEpoch& effect) {
  const Epoch& epoch = effect.epoch;
  system().middleman().unpublish(
      caf::actor_cast<caf::actor>(this));  // nobody else is expected: no port stays open
  context_.board.write([&](RunStatus& status) {
    status.ranks.clear();
    for (const Member& member : epoch.members) {
      const RankPlace place = place_of(epoch, member.rank);
      status.ranks.push_back({.rank = member.rank,
                              .replica = place.replica,
                              .stage = place.stage,
                              .pid = member.pid,
                              .host = member.host,
                              .state = "preparing"});
    }
  });
  std::vector<caf::actor> by_rank;
  for (const auto& [rank, stage] : stages_) by_rank.push_back(stage);
  replicas_.clear();
  for (int replica = 0; replica < epoch.mesh.dp; ++replica) {
    const auto begin = by_rank.begin() + replica * epoch.mesh.pp;
    replicas_.push_back(spawn<ReplicaActor>(replica,
                                            std::vector<caf::actor>(begin, begin + epoch.mesh.pp),
                                            caf::actor_cast<caf::actor>(this)));
  }
  scheduler_ = spawn<SchedulerActor>(context_.spec, caf::actor_cast<caf::actor>(this));
  order_all(BeginEpoch{.epoch = epoch,
                       .checkpoint = context_.spec.checkpoint.resume,
                       .weights_only = context_.spec.checkpoint.weights_only,
                       .sample_origin = context_.sample_origin});
  send(scheduler_, PlanEpoch{.epoch = epoch, .stages = by_rank});
}

void Director::perform(const OrderStep& effect) {
  if (effect.step == context_.first_step + 1) step_begin_ = std::chrono::steady_clock::now();
  order_all(RunStep{.epoch = protocol_.epoch().number, .step = effect.step});
}

void Director::perform(const OrderCommit& effect) {
  order_all(Commit{.epoch = protocol_.epoch().number,
                   .step = effect.step,
                   .clip_factor = to_bits(effect.clip_factor)});
  context_.observer.on_step(report(effect));
}

StepReport Director::report(const OrderCommit& commit) {
  const RunSpec& spec = context_.spec;
  const auto now = std::chrono::steady_clock::now();
  StepReport step{
      .step = commit.step,
      .loss = commit.loss,
      .grad_norm = commit.grad_norm,
      .lr = stages::learning_rate(spec.optimizer, commit.step),
      .tokens = spec.global_tokens(),
      .first_sample = context_.sample_origin + (commit.step - 1) * spec.batch.global,
      .step_s = std::chrono::duration<double>(now - std::exchange(step_begin_, now)).count()};
  for (const auto& replica : prepared_) {
    for (std::size_t stage = 0; stage < replica.answers.size(); ++stage) {
      const Prepared& vote = replica.answers[stage];
      const double busy = to_double(vote.busy_s);
      step.stages.push_back({.replica = replica.replica,
                             .stage = static_cast<int>(stage),
                             .busy_s = busy,
                             .idle_s = std::max(0.0, to_double(vote.wall_s) - busy)});
      for (std::size_t i = 0; i < vote.edge_to.size() && i < vote.edge_bytes.size(); ++i)
        step.edges.push_back({.from = vote.rank,
                              .to = static_cast<int>(vote.edge_to[i]),
                              .bytes = vote.edge_bytes[i]});
    }
  }
  return step;
}

std::string Director::checkpoint_path(std::int64_t step) const {
  return context_.spec.dir + "/checkpoints/step-" + std::to_string(step);
}

void Director::perform(const OrderSave& effect) {
  const auto dir = stages::begin_checkpoint(context_.spec.dir + "/checkpoints", effect.step);
  order_all(Save{.epoch = protocol_.epoch().number, .step = effect.step, .dir = dir});
}

void Director::perform(const PublishCheckpoint& effect) {
  const RunSpec& spec = context_.spec;
  const std::string path = checkpoint_path(effect.step);
  stages::finish_checkpoint(
      path + ".tmp",
      {.step = effect.step,
       .next_sample = context_.sample_origin + effect.step * spec.batch.global,
       .model = spec.model,
       .tokenizer = spec.data.tokenizer,
       .seq_len = spec.batch.seq_len},
      protocol_.epoch().mesh.pp);
  stages::prune_checkpoints(spec.dir + "/checkpoints", spec.checkpoint.keep);
  context_.observer.on_checkpoint(effect.step, path);
  handle(Published{.step = effect.step});
}

void Director::perform(const OrderEvaluate& effect) {
  order_all(Evaluate{.epoch = protocol_.epoch().number, .step = effect.step});
}

void Director::perform(const ReportEvaluation& effect) {
  context_.observer.on_eval({.step = effect.step, .loss = effect.loss});
  step_begin_ =
      std::chrono::steady_clock::now();  // an evaluation is no part of the next step's time
}

void Director::perform(const StartTimer& effect) {
  const auto delay = std::chrono::duration_cast<std::chrono::milliseconds>(
      std::chrono::duration<double>(effect.seconds));
  delayed_send(this, delay, Event{TimerRang{.timer = effect.timer}});
}

void Director::perform(const OrderFinish& effect) {
  if (replicas_.empty()) context_.processes.kill_all();  // not all have joined: nobody to ask
  order_all(Finish{.reason = effect.reason});
}

void Director::perform(const KillWorkers&) {
  context_.processes.kill_all();
}

void Director::perform(const End& effect) {
  for (const auto& replica : replicas_) send_exit(replica, caf::exit_reason::user_shutdown);
  if (scheduler_) send_exit(scheduler_, caf::exit_reason::user_shutdown);
  context_.on_end(effect.outcome);
  quit();
}

template <typename Order>
void Director::order_all(const Order& order) {
  for (const auto& replica : replicas_) send(replica, order);
}

void Director::publish_status() {
  context_.board.write([this](RunStatus& status) {
    status.state = state_name(protocol_.phase());
    if (protocol_.stopping() && status.state == "running") status.state = "stopping";
    status.step = protocol_.committed();
    status.epoch = protocol_.epoch().number;
  });
}

void Director::on_failure(const std::string& what) {
  handle(DirectorFailed{.message = what});
}

}  // namespace troupe::actors
