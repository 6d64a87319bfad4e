#include "actors/rank_trainer.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "stages/checkpoint.h"
#include "stages/optimizer.h"
#include "tensor/device.h"
#include "tensor/error.h"

namespace troupe::actors {
namespace {

/// Evaluation messages are keyed above all training steps.
constexpr std::uint64_t kEvalStep = std::uint64_t{1} << 62;
/// A wait for a peer longer than this is an error that names it. Peers that die are noticed at once
/// by the director; this bounds what nobody notices.
constexpr std::chrono::minutes kPeerDeadline{10};

std::vector<schedules::Action> parse_row(const std::string& row) {
  std::vector<schedules::Action> actions;
  for (std::size_t begin = 0; begin < row.size();) {
    const std::size_t end = std::min(row.find(',', begin), row.size());
    const auto action = schedules::parse_action(row.substr(begin, end - begin));
    if (!action)
      throw Error(ErrorKind::internal,
                  "the scheduler sent '" + row.substr(begin, end - begin) + "' as an action");
    actions.push_back(*action);
    begin = end + 1;
  }
  return actions;
}

stages::FeedSpec feed_spec(const RunSpec& spec, const Epoch& epoch) {
  return {.seq_len = spec.batch.seq_len,
          .micro = spec.batch.micro,
          .global = spec.batch.global,
          .replicas = epoch.mesh.dp,
          .seed = spec.seed,
          .vocab_size = spec.model.vocab_size};
}

std::unique_ptr<stages::DataFeed> open_feed(const std::string& tokens,
                                            const stages::FeedSpec& spec) {
  return std::make_unique<stages::DataFeed>(stages::TokenFile::open(tokens), spec);
}

}  // namespace

/// Everything that an epoch decides. Members are destroyed in reverse order: runners before what
/// they refer to.
struct RankTrainer::EpochParts {
  Epoch epoch;
  RankAssembly part;
  std::unique_ptr<stages::Stage> stage;
  std::vector<std::uint32_t> parameters;  // canonical numbers of the owned ones
  std::vector<std::size_t> owned;         // their places in stage->parameters()
  std::vector<double> squared_norms;
  std::unique_ptr<stages::DataFeed> feed, eval_feed;
  std::unique_ptr<tensor::ProcessGroup> tied, replicas;
  std::optional<PlanRunner> runner, eval_runner;
  std::vector<std::uint64_t> edge_bytes;  // sent by the end of the last step
};

RankTrainer::RankTrainer(RunSpec spec, int rank, transport::UcxNode& node)
    : spec_(std::move(spec)),
      rank_(rank),
      node_(node),
      device_(tensor::make_cpu_device(spec_.cluster.threads)) {
  node_.channel().set_deadline(kPeerDeadline);
}

RankTrainer::~RankTrainer() = default;

Ready RankTrainer::begin_epoch(const BeginEpoch& order, const PlanOrder& plan) {
  set_state("preparing");
  const Epoch& epoch = order.epoch;
  const Assembly assembly = assemble(spec_, epoch);
  if (assembly.digest != plan.digest)
    throw Error(ErrorKind::internal,
                "rank " + std::to_string(rank_) + " derives another plan or layout (digest " +
                    std::to_string(assembly.digest) + ") than the scheduler (" +
                    std::to_string(plan.digest) + "): are all programs of one version?");
  {
    const std::lock_guard lock(mutex_);
    groups_.clear();
  }
  epoch_ = std::make_unique<EpochParts>();
  EpochParts& now = *epoch_;
  now.epoch = epoch;
  now.part = part_of(assembly, spec_, epoch, rank_);
  now.part.actions = parse_row(plan.actions);
  now.part.eval_actions = parse_row(plan.eval_actions);
  now.stage = stages::make_transformer_stage(now.part.stage, *device_);
  load(order);
  connect(epoch, now.part);

  const auto all = stages::parameters_of(spec_.model);
  const auto mine = now.stage->parameters();
  for (std::size_t i = 0; i < mine.size(); ++i) {
    if (!mine[i].owned) continue;
    const auto at =
        std::find_if(all.begin(), all.end(), [&](const auto& p) { return p.name == mine[i].name; });
    TROUPE_ASSERT(at != all.end());
    now.parameters.push_back(static_cast<std::uint32_t>(at - all.begin()));
    now.owned.push_back(i);
  }
  now.squared_norms.resize(mine.size());

  const auto data = [&](const stages::DataFeed* feed) {
    return PlanRunner::Data{.feed = feed,
                            .replica = now.part.place.replica,
                            .tokens = spec_.batch.micro * spec_.batch.seq_len,
                            .num_microbatches = assembly.plan.num_microbatches};
  };
  stages::FeedSpec train = feed_spec(spec_, epoch);
  train.shuffle = spec_.data.shuffle;
  train.origin = order.sample_origin;
  now.feed = open_feed(spec_.data.tokens, train);
  now.runner.emplace(*now.stage, node_.channel(), compile(now.part, now.part.actions),
                     data(now.feed.get()));
  if (spec_.eval.interval > 0) {
    now.eval_feed = open_feed(spec_.eval.tokens, feed_spec(spec_, epoch));
    now.eval_runner.emplace(*now.stage, node_.channel(), compile(now.part, now.part.eval_actions),
                            data(now.eval_feed.get()));
  }
  set_state("ready");
  return {.epoch = epoch.number,
          .rank = rank_,
          .digest = assembly.digest,
          .parameters = now.parameters};
}

void RankTrainer::load(const BeginEpoch& order) {
  if (order.checkpoint.empty()) {
    stages::initialize(*epoch_->stage, spec_.model, spec_.seed);
    return;
  }
  const auto checkpoint = stages::CheckpointReader::open(order.checkpoint);
  checkpoint->check_model(spec_.model);
  checkpoint->load(*epoch_->stage, order.weights_only);
}

void RankTrainer::connect(const Epoch& epoch, const RankAssembly& part) {
  std::vector<int> peers = part.tied_ranks;
  peers.insert(peers.end(), part.replica_ranks.begin(), part.replica_ranks.end());
  for (const auto& edge : part.edges) peers.insert(peers.end(), {edge.from, edge.to});
  std::sort(peers.begin(), peers.end());
  peers.erase(std::unique(peers.begin(), peers.end()), peers.end());
  for (const int peer : peers) {
    if (peer == rank_) continue;
    const Member& member = epoch.members.at(static_cast<std::size_t>(peer));
    node_.connect(peer, member.incarnation, member.address);
  }
  // The run's id on the data plane: the first member's incarnation, random and known to all.
  const std::uint64_t run = epoch.members.front().incarnation;
  node_.channel().open({.run = run, .epoch = epoch.number, .rank = rank_, .edges = part.edges});

  // Group ids: one a replica for the tied matrix, then one a stage over its replicas.
  if (!part.tied_ranks.empty())
    epoch_->tied = node_.make_group(run, epoch.number, part.place.replica, "tied embedding",
                                    part.tied_ranks, rank_);
  if (!part.replica_ranks.empty())
    epoch_->replicas = node_.make_group(run, epoch.number, epoch.mesh.dp + part.place.stage,
                                        "replicas of stage " + std::to_string(part.place.stage),
                                        part.replica_ranks, rank_);
  const std::lock_guard lock(mutex_);
  for (auto* group : {epoch_->tied.get(), epoch_->replicas.get()})
    if (group) groups_.push_back(group);
}

Prepared RankTrainer::run_step(const RunStep& order) {
  set_state("running");
  EpochParts& now = *epoch_;
  const PlanResult result =
      now.runner->train(order.step - 1, static_cast<std::uint64_t>(order.step));
  reduce_gradients();
  now.stage->squared_norms(now.squared_norms);
  Prepared vote{.epoch = order.epoch,
                .step = order.step,
                .rank = rank_,
                .loss_sum = to_bits(result.loss_sum),
                .bad_microbatch = result.bad_microbatch,
                .busy_s = to_bits(result.busy_s),
                .wall_s = to_bits(result.wall_s)};
  for (const std::size_t i : now.owned) vote.squared_norms.push_back(to_bits(now.squared_norms[i]));
  const auto counts = node_.channel().counts();
  now.edge_bytes.resize(counts.edges.size());
  for (std::size_t i = 0; i < counts.edges.size(); ++i) {
    vote.edge_to.push_back(static_cast<std::uint32_t>(counts.edges[i].to));
    vote.edge_bytes.push_back(counts.edges[i].bytes -
                              std::exchange(now.edge_bytes[i], counts.edges[i].bytes));
  }
  set_state("prepared");
  return vote;
}

/// Completes the gradients: both uses of a tied matrix are added before the replicas' sums, so that
/// a replica's gradient has the same bits however its pipeline is cut.
void RankTrainer::reduce_gradients() {
  if (epoch_->tied) epoch_->tied->all_reduce(epoch_->stage->tied_gradient())->wait();
  epoch_->stage->end_backward();
  if (epoch_->replicas) epoch_->replicas->all_reduce(epoch_->stage->gradients())->wait();
}

void RankTrainer::commit(const Commit& order) {
  set_state("applying");
  epoch_->stage->apply(
      stages::adamw_step(spec_.optimizer, order.step, to_double(order.clip_factor)));
  set_state("ready");
}

Saved RankTrainer::save(const Save& order) {
  set_state("saving");
  // Replicas hold equal bits: the first one writes.
  if (epoch_->part.place.replica == 0)
    stages::write_checkpoint_part(order.dir, *epoch_->stage, epoch_->part.place.stage,
                                  epoch_->epoch.mesh.pp);
  set_state("ready");
  return {.epoch = order.epoch, .step = order.step, .rank = rank_};
}

Evaluated RankTrainer::evaluate(const Evaluate& order) {
  set_state("evaluating");
  double loss_sum = 0;
  for (std::int64_t k = 0; k < spec_.eval.steps; ++k)
    loss_sum += epoch_->eval_runner->evaluate(k, kEvalStep + next_eval_++).loss_sum;
  set_state("ready");
  return {.epoch = order.epoch, .step = order.step, .rank = rank_, .loss_sum = to_bits(loss_sum)};
}

void RankTrainer::interrupt(const std::string& reason) {
  node_.channel().close(reason);
  const std::lock_guard lock(mutex_);
  for (auto* group : groups_) group->abort(reason);
}

RankTrainer::Activity RankTrainer::activity() const {
  const auto wait = node_.channel().waiting();
  const std::lock_guard lock(mutex_);
  return {.state = wait ? "waiting" : state_, .waiting_for = wait ? wait->what : ""};
}

void RankTrainer::set_state(const char* state) {
  const std::lock_guard lock(mutex_);
  state_ = state;
}

}  // namespace troupe::actors
