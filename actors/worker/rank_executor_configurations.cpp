#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <set>
#include <utility>

#include "actors/worker/rank_executor.h"
#include "actors/worker/state/state_mover.h"
#include "tensor/errors/error.h"

// How a rank leaves a configuration and reaches the next one.

namespace troupe::actors {
namespace {

/// How long a wait polls before it sleeps, if there are enough cores.
constexpr std::chrono::microseconds kSpin{50};
/// The waits between two attempts to make a data plane: the first, and the limit of doubling it.
constexpr std::chrono::milliseconds kFirstRetry{100}, kLastRetry{13'000};

}  // namespace

Halted RankExecutor::halt(const Halt& order) {
  finish_writing();
  set_state("halted");
  // The last configuration that all ranks had reached decides which of two states counts.
  const bool fell_back = before_ && before_->configuration.number == order.kept;
  if (configuration_ && configuration_->copies &&
      configuration_->configuration.number == order.kept) {
    auto copies = configuration_->copies->take_out();
    if (!copies.empty()) held_ = std::move(copies);
  }
  leave_configuration();
  settle_update();
  if (fell_back) configuration_ = std::move(before_);
  before_.reset();
  if (order.reconnect) renew_node(order.configuration);
  Halted answer{.configuration = order.configuration,
                .incarnation = self_.incarnation,
                .address = node_->address(),
                .inventory = {}};
  if (configuration_ && configuration_->configuration.number != order.kept)
    configuration_.reset();  // a configuration that not all ranks have reached counts for nothing
  count_memory();
  if (!configuration_) return answer;
  answer.inventory.step = configuration_->state->step;
  const StageState& state = *configuration_->state;
  answer.inventory.has_previous = state.stage && state.stage->has_previous();
  for (const auto& copy : held_)
    answer.inventory.copies.push_back({.rank = copy.rank, .step = copy.step});
  return answer;
}

/// Releases everything that uses the connections of the configuration that ends; its state stays.
void RankExecutor::leave_configuration() {
  const std::lock_guard lock(mutex_);
  if (runner_) progress_ += runner_->progress();
  runner_ = nullptr;
  warm_stage_.set_current(std::nullopt);
  groups_.clear();
  for (RankConfiguration* ended : {configuration_.get(), before_.get()}) {
    if (!ended) continue;
    ended->copies.reset();
    ended->runner.reset();
    ended->eval_runners.clear();
    ended->tokens.reset();
    ended->data_parallel.reset();
    if (ended->state && ended->state->stage) ended->stage().join({});
    ended->groups = {};
  }
}

/// Replaces the data plane. If the machine lacks a thread, a descriptor or memory for it, this
/// tries again for half a minute, with growing delays: the rank may hold state that nobody else
/// has.
void RankExecutor::renew_node(std::uint32_t configuration) {
  // The interruption before this halt closed the old node's channel; the new one stays closed until
  // it is opened.
  std::unique_ptr<transport::UcxNode> next;
  for (auto wait = kFirstRetry; !next; wait *= 2) try {
      next = new_node();
    } catch (const std::exception& error) {
      if (wait > kLastRetry) throw;
      spdlog::warn("no data plane yet, tries again in {} ms: {}", wait.count(), error.what());
      set_state("waiting for what the machine lacks");
      std::unique_lock lock(mutex_);
      const auto is_interrupted = [&] { return configuration < min_configuration_; };
      if (interruption_.wait_for(lock, wait, is_interrupted)) throw;
    }
  const std::lock_guard lock(mutex_);
  node_.swap(next);
}

/// Frees what is left of earlier configurations, because all ranks have reached this one.
void RankExecutor::end_configurations_before() {
  if (std::exchange(configuration_->reached_by_all, true)) return;
  before_.reset();
  count_memory();
  if (configuration_->copies && !held_.empty()) configuration_->copies->free_kept();
  held_.clear();
  warm_stage_.release();
}

std::optional<Ready> RankExecutor::begin_configuration(const EnterConfiguration& order) {
  set_state("preparing");
  try {
    return prepare(order);
  } catch (...) {
    const std::lock_guard lock(mutex_);
    groups_.clear();  // the groups were destroyed with the unfinished configuration
    throw;
  }
}

/// The slots of copies that serve a configuration which begins with this state too.
std::vector<transport::KeptSlots> RankExecutor::kept_slots(RankConfiguration& now,
                                                           const StatePlan& state) const {
  if (!now.copies) return {};
  const bool is_copied =
      std::ranges::find(state.copied, now.copies->source()) != state.copied.end();
  return now.copies->kept(held_, state.step, is_copied);
}

std::optional<Ready> RankExecutor::prepare(const EnterConfiguration& order) {
  const Configuration& configuration = order.configuration;
  const int rank = configuration.rank_of(self_.incarnation);
  TROUPE_ASSERT(rank >= 0);
  if (rank >= configuration.num_ranks()) {  // it only gives its state away and leaves
    connect(configuration, order.start.state, nullptr);
    take_state(order, nullptr);
    return std::nullopt;
  }
  use_cores(order.start.host);
  const Assembly assembly = assemble(spec_, configuration.shape);
  if (assembly.digest != order.start.digest)
    throw Error(ErrorKind::internal,
                "rank " + std::to_string(rank) + " derives another plan or layout (digest " +
                    std::to_string(assembly.digest) + ") than the scheduler (" +
                    std::to_string(order.start.digest) + "): are all programs of one version?");
  auto now = std::make_unique<RankConfiguration>();
  now->configuration = configuration;
  now->rank = rank;
  now->on_several_hosts = order.start.host.ranks < configuration.num_ranks();
  now->part = part_of_run(assembly, spec_, configuration.shape, rank, order.start.ring);
  if (copies_state(spec_, configuration.shape))
    now->copies.emplace(
        spec_, configuration.shape, rank, order.start.ring.source_of(configuration.shape, rank),
        devices_.of(configuration.shape.mesh, now->part.place.stage), node_->channel());
  connect(configuration, order.start.state, &now->part);
  const auto begin = std::chrono::steady_clock::now();
  take_state(order, now.get());
  const double move_s = seconds_since(begin);
  use_cores(order.start.host);  // loading may have used others
  Ready ready{.configuration = configuration.number,
              .rank = rank,
              .move_s = move_s,
              .digest = assembly.digest};
  open_channel(training_configuration(configuration.number), configuration, now->part.edges,
               kept_slots(*now, order.start.state));
  make_groups(*now);
  ready.difference = compare_replicas(*now);
  now->data_parallel->share_weights();  // of slices that were moved or loaded
  add_runners(*now, spec_, order.start, node_->channel(), *device_,
              token_opener(configuration.number));
  now->sent = node_->sent();
  if (now->copies) copy_first_state(*now, order.start.state.copied);
  ready.parameters = now->parameters;
  {
    const std::lock_guard lock(mutex_);
    runner_ = &*now->runner;
    warm_stage_.set_current(now->part);
  }
  before_ = std::exchange(configuration_, std::move(now));
  count_memory();
  next_eval_ = 0;
  set_state("ready");
  return ready;
}

void RankExecutor::use_cores(const HostShare& host) {
  const CoreUse use = core_use(spec_.cluster, host.ranks);
  use.pin ? cores_.bind(host.place, spec_.cluster.device.threads) : cores_.release();
  spin_ = use.spin ? kSpin : std::chrono::microseconds(0);
  node_->set_spin(spin_);
}

/// Connects to all peers of this rank; peers that are connected already stay so.
void RankExecutor::connect(const Configuration& configuration, const StatePlan& state,
                           const RankAssembly* part) {
  const int me = configuration.rank_of(self_.incarnation);
  std::set<int> peers;
  for (const int peer : StateMover(state, spec_, configuration.shape, me, *device_).peers())
    peers.insert(peer);
  if (part) peers.merge(peers_of(*part));
  for (const int peer : peers) {
    if (peer == me) continue;
    const Member& member = configuration.members.at(peer);
    node_->connect(member.id, member.incarnation, member.address, member.host == self_.host);
  }
}

/// Opens the channel. Ranks of edges become member ids, the names on the data plane.
void RankExecutor::open_channel(std::uint32_t configuration, const Configuration& members,
                                std::vector<transport::Edge> edges,
                                std::vector<transport::KeptSlots> kept) {
  const auto id = [&](int rank) { return members.members.at(rank).id; };
  for (auto& edge : edges) {
    edge.from = id(edge.from);
    edge.to = id(edge.to);
  }
  std::map<int, int> ranks;
  for (const auto& [rank, member] : members.members) ranks[member.id] = rank;
  node_->channel().open({.run = members.run,
                         .configuration = configuration,
                         .rank = self_.id,
                         .edges = std::move(edges),
                         .kept = std::move(kept),
                         .ranks = std::move(ranks),
                         .device = &*device_,
                         .choice = spec_.cluster.edges});
  refuse_if_interrupted(configuration / 2);
}

/// Throws if the configuration is interrupted. An interruption may come while nothing waits; a
/// channel or group that is made after it must not be waited on.
void RankExecutor::refuse_if_interrupted(std::uint32_t configuration) const {
  const std::lock_guard lock(mutex_);
  if (configuration < min_configuration_) throw Error(ErrorKind::unavailable, interrupted_);
}

/// Says that it waits for a file, and goes on until the configuration is interrupted.
std::function<void()> RankExecutor::waits_for(const std::string& path,
                                              std::uint32_t configuration) {
  return [this, path, configuration] {
    set_state("waiting for the file " + path);
    refuse_if_interrupted(configuration);
  };
}

OpenTokens RankExecutor::token_opener(std::uint32_t configuration) {
  return [this, configuration](const std::string& tokens) {
    return files_.open(tokens, waits_for(tokens, configuration),
                       [&](const std::string& here) { return open_tokens(tokens, here); });
  };
}

}  // namespace troupe::actors
