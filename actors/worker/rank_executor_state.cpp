#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <map>

#include "actors/worker/rank_executor.h"
#include "actors/worker/state/state_mover.h"
#include "stages/files/checkpoint/checkpoint.h"
#include "stages/replicas/weight_comparison.h"
#include "stages/storage/xxh64.h"
#include "tensor/errors/error.h"

// How a rank comes to the state that a configuration begins with: from memory or from files.

namespace troupe::actors {
namespace {

/// The state that a rank's stage keeps, by part.
std::map<int, StateMover::Units> kept_in(const RankConfiguration& of, const RunSpec& spec) {
  if (of.state->parked) return of.state->parked->parts();
  const StateParts parts(spec, of.configuration.shape);
  std::map<int, StateMover::Units> held;
  for (const int part : parts.kept_by(of.rank))
    held[part] = units_in(*of.state->stage, spec.model, held.empty() ? Kept::own : Kept::twin);
  return held;
}

/// A name for what a stage has of a base in one run.
std::string name_of_base(const stages::Stage& stage, std::uint64_t run, const std::string& path) {
  std::string text = fmt::format("{:016x} {}", run, path);
  for (const stages::Parameter& parameter : stage.parameters()) {
    if (!parameter.update.is_base) continue;
    const auto& [row, rows, column, columns] = parameter.region;
    text += fmt::format(" {} {} {} {} {}", parameter.name, row, rows, column, columns);
  }
  return fmt::format("troupe-base-{}", stages::to_hex(stages::xxh64(text)));
}

}  // namespace

void RankExecutor::take_state(const EnterConfiguration& order, RankConfiguration* now) {
  if (order.start.state.from_memory) step_back(order.start.state.step);
  if (now) now->state = next_state(order, *now);
  if (order.start.state.from_memory)
    move_state(order, now);
  else if (now)
    load(order, *now->state);
  if (!now) return;
  if (spec_.model.adapter) use_base(order, *now->state);
  now->state->step = order.start.state.step;
}

/// Takes back the last update of the state in memory, if the next configuration begins before it.
void RankExecutor::step_back(std::int64_t step) {
  if (!configuration_) return;
  StageState& state = *configuration_->state;
  if (state.step != step + 1 || !state.stage || !state.stage->has_previous()) return;
  state.stage->step_back();
  state.step = step;
}

/// The stage of the next configuration, of zeros if it is not the one that the rank has. One on
/// another device takes the state from the host.
std::shared_ptr<StageState> RankExecutor::next_state(const EnterConfiguration& order,
                                                     const RankConfiguration& now) {
  const auto warm = warm_stage_.take();
  const StageState* const before = configuration_ ? configuration_->state.get() : nullptr;
  tensor::Device& device = devices_.of(order.configuration.shape.mesh, now.part.place.stage);
  const auto fits = [&](const StageState& state) {
    return state.stage && state.spec == now.part.stage && state.device == &device;
  };
  // A loaded state goes into a new stage, because fresh weights must not keep old moments.
  if (order.start.state.from_memory && before && fits(*before)) return configuration_->state;
  const bool has_warm = warm && fits(*warm);
  const auto has_room = [&] {
    return has_warm || warm_stage_.has_room(order.configuration.shape, now.rank);
  };
  if (before && before->stage && (&device != device_ || !has_room())) park_state();
  device_ = &device;
  return has_warm ? warm : warm_stage_.make(now.part.stage, device);
}

/// Moves the state of the configuration before from its device to the host, where it stays until
/// all ranks have reached the next one.
void RankExecutor::park_state() {
  StageState& state = *configuration_->state;
  state.parked.emplace(kept_in(*configuration_, spec_), *device_);
  state.stage.reset();
  spdlog::info(
      "no room for two stages on the device, or another device: the state of step {}, {:.1f} MiB, "
      "waits in host memory",
      state.step, static_cast<double>(state.parked->bytes()) / (1 << 20));
}

void RankExecutor::move_state(const EnterConfiguration& order, RankConfiguration* now) {
  const StatePlan& plan = order.start.state;
  StateMover::Memory memory;
  if (configuration_) {
    if (configuration_->state->step == plan.step) memory.own = kept_in(*configuration_, spec_);
    memory.own_on_host = configuration_->state->parked.has_value();
    for (const auto& copy : held_) {
      if (copy.step != plan.step) continue;
      memory.copies[copy.rank] =
          parts_in(copy.memory, spec_, configuration_->configuration.shape, copy.rank);
    }
  }
  if (now) {
    memory.into = kept_in(*now, spec_);
    memory.in_place = configuration_ && now->state == configuration_->state;
  }
  // All go back to a copied step: the stage's own state is overwritten, and counts no more.
  const bool overwrites = memory.in_place && now->state->step != plan.step;
  if (overwrites) now->state->step = -1;
  StateMover mover(plan, spec_, order.configuration.shape,
                   order.configuration.rank_of(self_.incarnation), *device_);
  const auto edges = mover.edges();
  if (!edges.empty())
    open_channel(moving_configuration(order.configuration.number), order.configuration, edges);
  mover.perform(memory, node_->channel());
  if (now && (!memory.in_place || overwrites)) now->stage().weights_changed();
}

/// Looks for weights that differ where several ranks keep them, and repairs them if that is
/// ordered. A copy that a neighbour already holds of the state stays as it was.
Ready::Difference RankExecutor::compare_replicas(RankConfiguration& now) {
  const stages::StateSharding& state = now.part.stage.state;
  const bool repairs = spec_.data_parallel.repairs;
  const auto compared_with = [&](const stages::WeightComparison& found, int replica) {
    if (found.first < 0) return Ready::Difference{};
    const auto first = static_cast<std::size_t>(found.first);
    return Ready::Difference{.parameter = now.stage().parameters()[first].name,
                             .count = found.count,
                             .reference = replica};
  };
  if (tensor::ProcessGroup* const twins = now.groups.get(GroupKind::twins)) {
    const auto found = stages::compare_with_twin(now.stage(), *twins, *device_, state.ep);
    if (!found.all_equal && repairs) stages::copy_to_twins(now.stage(), *twins, *device_, state.ep);
    return compared_with(found, now.part.place.replica - state.index + found.reference);
  }
  const auto compare = [&](GroupKind kind, stages::Compared compared, int first, int step) {
    tensor::ProcessGroup* const holders = now.groups.get(kind);
    if (!holders) return Ready::Difference{};
    const auto found = stages::compare_weights(now.stage(), *holders, *device_, compared);
    if (!found.all_equal && repairs)
      stages::copy_state(now.stage(), *holders, found.reference, *device_, compared);
    return compared_with(found, first + found.reference * step);
  };
  using enum stages::Compared;
  if (state.count > 1) return compare(GroupKind::instances, all, state.index, state.count);
  const stages::Sharding& sharding = now.part.stage.sharding;
  const auto difference = compare(GroupKind::replicas, others, 0, 1);
  const auto of_experts =
      compare(GroupKind::expert_replicas, experts, sharding.ep_member, sharding.ep);
  return difference.count > 0 ? difference : of_experts;
}

/// Makes copies of the state that the configuration starts from before its first step. Copies that
/// neighbours already hold are not sent again.
void RankExecutor::copy_first_state(RankConfiguration& now, const std::vector<int>& copied) {
  const auto is_copied = [&](int rank) { return std::ranges::find(copied, rank) != copied.end(); };
  const std::int64_t step = now.state->step;
  if (is_copied(now.rank))
    now.copies->skip(now.stage(), step);
  else
    now.copies->send(now.stage(), step);
  if (now.copies->source() < 0) return;
  if (!is_copied(now.copies->source())) return now.copies->receive(step);
  const auto held = std::ranges::find_if(held_, [&](const NeighbourCopies::HeldCopy& copy) {
    return copy.rank == now.copies->source() && copy.step == step;
  });
  TROUPE_ASSERT(held != held_.end());
  now.copies->adopt(*held);
}

/// The threads that set a rank's state before its first step. Those of a GPU's rank, which needs no
/// others to compute, are its share of its machine's cores.
int RankExecutor::loading_threads(const HostShare& host) const {
  constexpr int kMost = 32;  // memory is no faster for more
  const int threads = spec_.cluster.device.threads;
  if (device_->host_reads_memory()) return threads;
  return std::max(threads, std::min(kMost, cores_.num_allowed() / std::max(1, host.ranks)));
}

/// The stage has the base of an adapter in memory that it shares with those on its host which have
/// the same part of it. None of it travels: one that nobody on the host has is read from its files.
void RankExecutor::use_base(const EnterConfiguration& order, StageState& state) {
  if (state.has_base) {
    if (state.shared_base) state.shared_base->offer();  // the rank that did may have died
    return;
  }
  const tensor::Tensor base = state.stage->base();
  if (base && device_->host_reads_memory() &&
      transport::SharedPages::can_share(base.data, base.num_bytes()))
    state.shared_base.emplace(
        name_of_base(*state.stage, order.configuration.run, spec_.model.adapter->base), base.data,
        base.num_bytes());
  if (state.shared_base && state.shared_base->take())
    state.stage->weights_changed();
  else
    read_base(order, state);
  state.has_base = true;
  if (state.shared_base) state.shared_base->give();
}

void RankExecutor::read_base(const EnterConfiguration& order, StageState& state) {
  const std::string& path = spec_.model.adapter->base;
  const int threads = loading_threads(order.start.host);
  if (threads > spec_.cluster.device.threads) cores_.release();
  const auto begin = std::chrono::steady_clock::now();
  const auto base =
      files_.open(path, waits_for(path, order.configuration.number),
                  [](const std::string& here) { return stages::CheckpointReader::open(here); });
  base->load(
      *state.stage, true,
      [this](std::uint64_t done, std::uint64_t total) {
        set_state("reading the base, " + std::to_string(100 * done / total) + " %");
      },
      threads);
  spdlog::info("base read in {:.1f} s, threads: {}", seconds_since(begin), threads);
}

void RankExecutor::load(const EnterConfiguration& order, StageState& state) {
  const int threads = loading_threads(order.start.host);
  const auto begin = std::chrono::steady_clock::now();
  const auto log = [&](const char* done) {
    spdlog::info("{} in {:.1f} s, threads: {}", done, seconds_since(begin), threads);
  };
  // Threads inherit the cores of the one that starts them.
  if (threads > spec_.cluster.device.threads) cores_.release();
  const std::string& path = order.start.checkpoint;
  const auto& adapter = spec_.model.adapter;
  if (path.empty() || (adapter && path == adapter->base)) {
    set_state("drawing weights");
    stages::initialize(*state.stage, spec_.model, spec_.seed, threads);
    return log("weights drawn");
  }
  const auto checkpoint =
      files_.open(path, waits_for(path, order.configuration.number), [&](const std::string& here) {
        return adapter ? stages::CheckpointReader::open_adapter(here, spec_.model)
                       : stages::CheckpointReader::open(here);
      });
  checkpoint->check_model(spec_.model);
  checkpoint->load(
      *state.stage, order.start.weights_only,
      [this](std::uint64_t done, std::uint64_t total) {
        set_state("loading, " + std::to_string(100 * done / total) + " %");
      },
      threads);
  log("checkpoint read");
}

}  // namespace troupe::actors
