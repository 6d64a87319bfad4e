#include "actors/worker/rank_executor.h"

#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <utility>

#include "actors/topology/validation.h"
#include "actors/worker/ahead_gate.h"
#include "actors/worker/collective_log.h"
#include "actors/worker/step/parameter_histograms.h"
#include "actors/worker/step/tap.h"
#include "actors/worker/step/traced_actions.h"
#include "stages/storage/claim.h"
#include "tensor/device/device.h"
#include "tensor/errors/error.h"

namespace troupe::actors {
namespace {

/// The step that keys the first evaluation's messages, above all training steps.
constexpr std::uint64_t kEvalStep = std::uint64_t{1} << 62;
/// In the key of messages of a step that is run anew, because others may still take those of
/// before.
constexpr std::uint64_t kAnew = std::uint64_t{1} << 61;
/// A wait that is longer is told with the ranks that it is for: the way to them may be broken.
constexpr double kLongWaitS = 2;

/// The resident memory of this process, as the kernel counts it; 0 if it is not known.
std::uint64_t resident_memory() {
  std::ifstream file("/proc/self/statm");
  std::uint64_t size = 0, resident = 0;
  file >> size >> resident;
  return file ? resident * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE)) : 0;
}

/// Tells of edges that are not where `cluster.edges = "peer"` wants them.
void warn_of_staged(const transport::ChannelCounts& counts, const Configuration& configuration) {
  for (const auto& [peer, placement] : counts.placements)
    if (placement == transport::EdgePlacement::staged)
      spdlog::warn(
          "messages with rank {} go through the memory of hosts, though cluster.edges = \"peer\": "
          "it "
          "is on another host, or neither process can map the memory of the other's GPU",
          configuration.members.rank_of_id(peer));
}

}  // namespace

RankExecutor::RankExecutor(RunSpec spec, const Member& self, NodeFactory make_node,
                           WorkerFiles files)
    : spec_(std::move(spec)),
      self_(self),
      make_node_(std::move(make_node)),
      files_(std::move(files)),
      slots_(std::make_shared<transport::SlotPool>()),
      devices_(spec_, self_.id),
      device_(&devices_.first()),
      node_(new_node()),
      warm_stage_(spec_, devices_, slots_, node_->shares_memory()) {}

RankExecutor::~RankExecutor() {
  finish_writing();
}

std::unique_ptr<transport::UcxNode> RankExecutor::new_node() const {
  auto node = make_node_(slots_);
  node->channel().set_deadline(kPeerDeadline);
  node->set_spin(spin_);
  return node;
}

// --- steps

Prepared RankExecutor::run_step(const RunStep& order, StepOrders& orders) {
  try {
    return compute_step(order, orders);
  } catch (const Error&) {
    write_collectives(spec_.dir, configuration_->rank, node_->operations());
    throw;
  }
}

Prepared RankExecutor::compute_step(const RunStep& order, StepOrders& orders) {
  update_ahead(order);
  set_state("running");
  end_configurations_before();
  RankConfiguration& now = *configuration_;
  AheadGate gate(*this, order, orders);
  std::optional<Tap> tap;
  if (!order.taps.empty()) tap.emplace(order, now.part, now.rank, spec_.dir + "/taps", *device_);
  now.data_parallel->complete_weights();
  if (order.own_groups) use_own_groups();
  const auto key = static_cast<std::uint64_t>(order.step);
  // What is looked at must count.
  const bool waits = tap || !ahead_;
  if (waits && !gate.weights_stand()) update_again();
  PlanResult result = train(order, key, tap ? &*tap : nullptr, gate);
  if (result.given_up) {
    update_again();
    result = train(order, key | kAnew, nullptr, gate);
  }
  set_state("reducing");
  now.data_parallel->finish();
  now.data_parallel->squared_norms(now.squared_norms);
  refuse_failed_groups();
  Prepared vote = vote_of(order, result);
  gate.finish();
  voted_ = order.step;
  {
    const std::lock_guard lock(mutex_);
    longest_action_s_ = std::max(longest_action_s_, result.longest_action_s);
  }
  add_waits(vote, *now.runner, now.part, now.rank);
  if (tap) seen_.tapped = tap->take();
  if (spec_.histogram_interval > 0 && order.step % spec_.histogram_interval == 0)
    seen_.histograms = histograms_of(now.stage(), spec_.model, now.part, order, now.rank, *device_);
  if (order.trace)
    seen_.actions =
        traced_actions(*now.runner, now.part, now.rank, order, now.data_parallel->spans());
  set_state("prepared");
  return vote;
}

/// Runs the plan of a step.
PlanResult RankExecutor::train(const RunStep& order, std::uint64_t message_step, Tap* tap,
                               AheadGate& gate) {
  RankConfiguration& now = *configuration_;
  const bool runs_ahead = updates_ahead(spec_, now.configuration.shape);
  set_state("running");
  now.data_parallel->complete_weights();
  now.data_parallel->begin_step();
  return now.runner->train(order.step - 1, message_step,
                           {.record = order.trace,
                            .tap = tap,
                            .gate = runs_ahead ? &gate : nullptr,
                            .in_program_order = now.groups_state == GroupsState::own});
}

/// What the rank says of a step that it has computed.
Prepared RankExecutor::vote_of(const RunStep& order, const PlanResult& result) {
  RankConfiguration& now = *configuration_;
  const tensor::DeviceMemory memory = device_->memory();
  Prepared vote{.configuration = order.configuration,
                .step = order.step,
                .rank = now.rank,
                .loss_sum = result.loss_sum,
                .targets = result.targets,
                .sources = {result.sources.begin(), result.sources.end()},
                .bad_microbatch = result.bad_microbatch,
                .bad_gradient = now.data_parallel->not_finite(),
                .busy_s = result.busy_s,
                .collective_s = result.collective_s,
                .wall_s = result.wall_s,
                .device_used = memory.used,
                .device_total = memory.total,
                .groups = state_of_groups()};
  for (const std::size_t i : now.owned) vote.squared_norms.push_back(now.squared_norms[i]);
  for (const stages::CollectiveReport& row : now.data_parallel->collectives())
    vote.collectives.push_back({.group = row.group,
                                .operation = row.operation,
                                .count = row.count,
                                .bytes = row.bytes,
                                .time_s = row.time_s,
                                .exposed_s = row.exposed_s});
  for (const stages::LargeBucket& large : now.data_parallel->large_buckets())
    vote.large.push_back({.bucket = large.bucket, .norm = large.norm});
  if (now.part.place.shard == 0)
    for (const stages::RouterLoad& router : now.stage().router_loads())
      vote.routers.push_back({.layer = router.layer,
                              .load = {router.load.begin(), router.load.end()},
                              .entropy = router.entropy,
                              .balance = router.balance,
                              .z = router.z});
  const auto counts = node_->channel().counts();
  if (spec_.cluster.edges == transport::EdgeChoice::peer && !std::exchange(now.edges_told, true))
    warn_of_staged(counts, now.configuration);
  now.edge_bytes.resize(counts.edges.size());
  for (std::size_t i = 0; i < counts.edges.size(); ++i) {
    const int to = now.configuration.members.rank_of_id(counts.edges[i].to);
    const std::uint64_t before = std::exchange(now.edge_bytes[i], counts.edges[i].bytes);
    vote.sent.push_back(
        {.to = static_cast<std::uint32_t>(to), .bytes = counts.edges[i].bytes - before});
  }
  const transport::SentBytes before = std::exchange(now.sent, node_->sent());
  if (now.on_several_hosts) {
    vote.host_bytes = now.sent.on_this_host - before.on_this_host;
    vote.network_bytes = now.sent.to_other_hosts - before.to_other_hosts;
  }
  return vote;
}

void RankExecutor::save(const Save& order, const std::function<void(Saved)>& answer) {
  finish_writing();
  Saved saved{
      .configuration = order.configuration, .step = order.step, .rank = configuration_->rank};
  configuration_->data_parallel->complete_weights();
  // Instances hold the same bits, as replicas that divide nothing do; the first one writes.
  if (!is_first_holder(configuration_->part)) return answer(saved);
  try {
    if (!files_.own_run_dir()) stages::Claim{.file = order.owner_file, .text = order.owner}.check();
  } catch (const Error& error) {
    saved.error = error.what();
    return answer(saved);
  }
  const std::string where = files_.own_run_dir() ? "host " + self_.host + ": " : "";
  // By its name in the directory that this host sees as the run's.
  const std::string name = std::filesystem::path(order.dir).filename();
  writer_.start(spec_.dir + "/checkpoints/" + name, configuration_->stage(), spec_.model,
                {.part = configuration_->part.place.stage,
                 .num_parts = configuration_->configuration.shape.mesh.pp,
                 .sharding = configuration_->part.stage.sharding},
                [saved, answer, where](const std::string& error, bool for_good) mutable {
                  saved.error = error.empty() ? "" : where + error;
                  saved.for_good = for_good;
                  answer(saved);
                });
}

void RankExecutor::finish_writing() {
  if (!writer_.is_writing()) return;
  set_state("saving");
  writer_.finish();
}

Evaluated RankExecutor::evaluate(const Evaluate& order) {
  set_state("evaluating");
  end_configurations_before();
  configuration_->data_parallel->complete_weights();
  if (order.batch == 0 && !spec_.eval.keeps_gradients)
    spdlog::info("gives {} bytes of gradients back until the next step",
                 configuration_->stage().give_up_gradients());
  const RunSpec::Eval::Batch batch = spec_.eval.batch(order.batch, spec_.batch.global);
  const PlanResult result =
      configuration_->eval_runners.at(batch.set).evaluate(batch.number, kEvalStep + next_eval_++);
  set_state("ready");
  return {.configuration = order.configuration,
          .step = order.step,
          .batch = order.batch,
          .rank = configuration_->rank,
          .loss_sum = result.loss_sum,
          .targets = result.targets};
}

// --- from other threads

void RankExecutor::interrupt(std::uint32_t next, const std::string& reason) {
  {
    const std::lock_guard lock(mutex_);
    min_configuration_ = std::max(min_configuration_, next);
    interrupted_ = reason;
    for (auto* group : groups_) group->abort(reason);
    node_->channel().close(reason);
  }
  interruption_.notify_all();
}

bool RankExecutor::is_interrupted(std::uint32_t configuration) const {
  const std::lock_guard lock(mutex_);
  return configuration < min_configuration_;
}

Heartbeat RankExecutor::activity() const {
  const std::uint64_t resident_bytes = resident_memory();
  const std::lock_guard lock(mutex_);
  const auto wait = node_->channel().waiting();
  const auto counts = node_->channel().counts();
  AllocatedMemory allocated = allocated_;
  for (const auto* group : groups_) allocated.collectives += group->bytes();
  allocated.pools += static_cast<std::int64_t>(counts.buffer_bytes + slots_->free_bytes());
  Heartbeat beat{.incarnation = self_.incarnation,
                 .progress = progress_ + (runner_ ? runner_->progress() : 0),
                 .longest_action_s = longest_action_s_,
                 .state = wait ? "waiting" : state_,
                 .waiting_for = wait ? wait->what : "",
                 .resident_bytes = resident_bytes,
                 .allocated = allocated,
                 .saved_bytes = writer_.bytes()};
  if (wait && wait->seconds > kLongWaitS) beat.waits_long_for = wait->on;
  for (const auto& edge : counts.edges)
    beat.links.push_back({.to = edge.to, .queued = edge.queued});
  for (const auto& [peer, placement] : counts.placements)
    beat.edges.push_back({.peer = peer, .placement = placement});
  return beat;
}

/// Counts what the configurations have allocated that the rank still has. They may share a stage.
void RankExecutor::count_memory() {
  AllocatedMemory all;
  const StageState* counted = nullptr;
  for (const RankConfiguration* configuration : {configuration_.get(), before_.get()}) {
    if (!configuration) continue;
    if (configuration->data_parallel) all.buckets += configuration->data_parallel->allocated();
    if (configuration->copies) all.pools += configuration->copies->own_bytes();
    if (!configuration->state || configuration->state.get() == counted) continue;
    counted = configuration->state.get();
    if (counted->stage) all.stage += counted->stage->allocated();
    if (counted->parked) all.pools += static_cast<std::int64_t>(counted->parked->bytes());
  }
  const std::lock_guard lock(mutex_);
  allocated_ = all;
}

void RankExecutor::set_state(std::string state) {
  const std::lock_guard lock(mutex_);
  state_ = std::move(state);
}

}  // namespace troupe::actors
