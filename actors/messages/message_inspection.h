#pragma once

#include <caf/error.hpp>
#include <caf/meta/load_callback.hpp>
#include <caf/sec.hpp>
#include <cstdint>
#include <utility>
#include <vector>

#include "actors/messages/file_messages.h"
#include "actors/messages/join_messages.h"
#include "actors/messages/messages.h"
#include "actors/messages/numbers_on_wire.h"
#include "actors/messages/survey_messages.h"
#include "actors/messages/takeover_messages.h"

// How CAF serialises the messages of the control plane: field by field.

namespace troupe::actors {

#define TROUPE_INSPECT(Type, ...)                                               \
  template <typename Inspector>                                                 \
  typename Inspector::result_type inspect(Inspector& f, Type& x) {              \
    return [&](auto&... fields) { return f(on_wire(fields)...); }(__VA_ARGS__); \
  }

TROUPE_INSPECT(WorkerGpu, x.index, x.name, x.uuid)
TROUPE_INSPECT(Member, x.id, x.incarnation, x.pid, x.host, x.address, x.gpu)
TROUPE_INSPECT(RunSpec::Width, x.dp, x.tp)
TROUPE_INSPECT(RunSpec::Mesh, x.pp, x.dp, x.tp, x.sequence_parallel, x.widths, x.ep, x.etp)
TROUPE_INSPECT(RunSpec::Schedule, x.kind, x.chunks, x.csv, x.costs)
TROUPE_INSPECT(Layout::Chunk, x.first_layer, x.end_layer, x.stage)
TROUPE_INSPECT(ChunkRun, x.first, x.stage_step, x.chunks)
TROUPE_INSPECT(ClusterShape, x.mesh, x.schedule, x.layout)
TROUPE_INSPECT(ConfigurationHeader, x.run, x.number, x.shape)
TROUPE_INSPECT(StateMove, x.unit, x.from, x.to, x.copy_of, x.part)
TROUPE_INSPECT(StatePlan, x.step, x.from_memory, x.kept, x.moves, x.copied)
TROUPE_INSPECT(CopyRing, x.keepers)
TROUPE_INSPECT(CopyRecord, x.rank, x.step)
TROUPE_INSPECT(StateInventory, x.step, x.has_previous, x.copies)
TROUPE_INSPECT(Hello, x.version, x.token)
TROUPE_INSPECT(Join, x.token, x.member)
TROUPE_INSPECT(Welcome, x.manifest, x.director)
TROUPE_INSPECT(Host, x.name, x.slots, x.cores, x.memory_bytes)
TROUPE_INSPECT(HostHello, x.version, x.token, x.host, x.incarnation, x.address, x.seconds_left,
               x.door, x.traits)
TROUPE_INSPECT(HostWelcome, x.refused, x.code)
TROUPE_INSPECT(WorkerBootstrap, x.host, x.port, x.token, x.id, x.incarnation, x.cores, x.device,
               x.ports, x.log_dir, x.on, x.has_agent, x.run_dir, x.failed_gpus)
TROUPE_INSPECT(StartWorker, x.bootstrap)
TROUPE_INSPECT(StopWorkers, x.incarnations, x.all)
TROUPE_INSPECT(AgentBeat, x.cpu_seconds, x.sent_s, x.clock.seconds, x.clock.error_s)
TROUPE_INSPECT(DirectorBeat, x.beat, x.asked_s, x.sent_s)
TROUPE_INSPECT(WorkerEnded, x.incarnation, x.exit_code, x.cause)
TROUPE_INSPECT(HostLeaves, x.cause)
TROUPE_INSPECT(FilesWanted, x.paths, x.bytes, x.patience_s)
TROUPE_INSPECT(FilesSeen, x.bytes, x.late_s)
TROUPE_INSPECT(Dismissed, x.exit_code, x.reason)
TROUPE_INSPECT(ListingWanted, x.path, x.sums)
TROUPE_INSPECT(ListedFile, x.name, x.bytes, x.written_ns, x.sum)
TROUPE_INSPECT(Listing, x.files, x.absent, x.error)
TROUPE_INSPECT(BlockWanted, x.path, x.name, x.offset, x.size)
TROUPE_INSPECT(Block, x.offset, x.size, x.bytes, x.error)
TROUPE_INSPECT(FilesNeeded, x.token, x.path)
TROUPE_INSPECT(FilesHere, x.path, x.error, x.kind)
TROUPE_INSPECT(FilesAway, x.source, x.run_dir, x.tokens, x.folders)
TROUPE_INSPECT(FilesBrought, x.error, x.parts)
TROUPE_INSPECT(LogTail, x.folder, x.file, x.text, x.replaces)
TROUPE_INSPECT(ProbeTarget, x.host, x.address, x.port)
TROUPE_INSPECT(LinkProbe, x.host, x.to, x.connected, x.fault, x.round_trip_s, x.bytes_per_s,
               x.clock_ahead_s, x.clock_error_s)
TROUPE_INSPECT(HostFacts, x.interface, x.free_ports, x.shm_bytes, x.needs_shm, x.locked_bytes,
               x.flops)
TROUPE_INSPECT(SurveyBegun, x.survey, x.secret, x.ports, x.looks)
TROUPE_INSPECT(HostSurveyed, x.survey, x.port, x.fault, x.facts)
TROUPE_INSPECT(ProbeLinks, x.survey, x.targets, x.patience_s, x.measures)
TROUPE_INSPECT(LinksProbed, x.survey, x.links)
TROUPE_INSPECT(SurveyEnded, x.survey)
TROUPE_INSPECT(AskAgent, x.token)
TROUPE_INSPECT(AgentState, x.hello, x.term, x.is_orphaned, x.silent_s)
TROUPE_INSPECT(TakeOver, x.token, x.term)
TROUPE_INSPECT(TakenOver, x.refused, x.hello, x.workers)
TROUPE_INSPECT(RunBegins, x.term, x.wait_s, x.silent_s, x.token, x.address, x.port)
TROUPE_INSPECT(Resident, x.incarnation)
TROUPE_INSPECT(NewDirector, x.term, x.token)
TROUPE_INSPECT(HeldConfiguration, x.header, x.rank, x.reached)
TROUPE_INSPECT(CommittedStep, x.step, x.loss, x.grad_norm, x.targets)
TROUPE_INSPECT(Rejoin, x.token, x.member, x.configuration, x.held, x.commits)

/// A message that says all by being sent.
template <typename Inspector>
typename Inspector::result_type inspect(Inspector& f, PartsDropped&) {
  return f();
}
TROUPE_INSPECT(Halt, x.configuration, x.kept, x.reconnect, x.reason)
TROUPE_INSPECT(Halted, x.configuration, x.incarnation, x.address, x.inventory)
TROUPE_INSPECT(Peers, x.configuration, x.members)
TROUPE_INSPECT(Moves, x.configuration, x.moves)
TROUPE_INSPECT(HostShare, x.ranks, x.place)
TROUPE_INSPECT(ConfigurationStart, x.state, x.checkpoint, x.weights_only, x.sample_origin,
               x.saves_only, x.digest, x.host, x.ring)
TROUPE_INSPECT(BeginConfiguration, x.configuration, x.start)
TROUPE_INSPECT(WarmUp, x.order, x.rank, x.any_rank, x.shape)
TROUPE_INSPECT(Warm, x.order, x.incarnation, x.rank)
TROUPE_INSPECT(TapRequest, x.from, x.to, x.backward, x.every, x.microbatch, x.only_not_finite,
               x.dump, x.samples)
TROUPE_INSPECT(RunStep, x.configuration, x.step, x.trace, x.own_groups, x.taps)
TROUPE_INSPECT(Commit, x.configuration, x.step, x.clip_factor, x.loss, x.grad_norm, x.targets)
TROUPE_INSPECT(Save, x.configuration, x.step, x.dir, x.owner_file, x.owner)
TROUPE_INSPECT(Evaluate, x.configuration, x.step, x.batch)
TROUPE_INSPECT(Finish, x.reason)
TROUPE_INSPECT(Ready::Difference, x.parameter, x.count, x.reference)
TROUPE_INSPECT(Ready, x.configuration, x.rank, x.move_s, x.digest, x.parameters, x.difference)
TROUPE_INSPECT(Prepared::Sent, x.to, x.bytes)
TROUPE_INSPECT(Prepared::Waited, x.from, x.wait_s)
TROUPE_INSPECT(StepReport::Collectives, x.group, x.operation, x.count, x.bytes, x.time_s,
               x.exposed_s)
TROUPE_INSPECT(StepReport::SourceSum, x.loss_sum, x.targets)
TROUPE_INSPECT(StepReport::Router, x.layer, x.load, x.entropy, x.balance, x.z)
TROUPE_INSPECT(LargeGradient, x.bucket, x.norm)
TROUPE_INSPECT(Prepared, x.configuration, x.step, x.rank, x.loss_sum, x.targets, x.sources,
               x.bad_microbatch, x.bad_gradient, x.squared_norms, x.busy_s, x.collective_s,
               x.wall_s, x.device_used, x.device_total, x.groups, x.host_bytes, x.network_bytes,
               x.sent, x.waited, x.collectives, x.large, x.routers)
TROUPE_INSPECT(ActionsTraced::Action, x.name, x.queued_s, x.begin_s, x.end_s, x.sent_s, x.busy_s,
               x.collective_s, x.waited_s, x.from, x.to)
TROUPE_INSPECT(ActionsTraced::Collective, x.group, x.operation, x.bucket, x.begin_s, x.end_s)
TROUPE_INSPECT(ActionsTraced, x.actions, x.collectives, x.complete)
TROUPE_INSPECT(TensorSummary, x.elements, x.not_finite, x.norm, x.mean, x.min, x.max, x.histogram)
TROUPE_INSPECT(TensorTapped, x.to, x.backward, x.microbatch, x.summary, x.file, x.error)
TROUPE_INSPECT(ParametersSeen::Row, x.tensor, x.is_gradient, x.whole, x.part)
TROUPE_INSPECT(ParametersSeen, x.rows)
TROUPE_INSPECT(Copied, x.configuration, x.step, x.rank)
TROUPE_INSPECT(Saved, x.configuration, x.step, x.rank, x.error, x.for_good)
TROUPE_INSPECT(Evaluated, x.configuration, x.step, x.batch, x.rank, x.loss_sum, x.targets)
TROUPE_INSPECT(Failed, x.configuration, x.incarnation, x.kind, x.message, x.of_gpu)
TROUPE_INSPECT(Heartbeat::Link, x.to, x.queued)
TROUPE_INSPECT(Heartbeat::Placed, x.peer, x.placement)
TROUPE_INSPECT(AllocatedMemory, x.stage.weights, x.stage.gradients, x.stage.optimizer,
               x.stage.activations, x.stage.packed, x.stage.gathered, x.stage.buckets, x.buckets,
               x.collectives, x.pools)
TROUPE_INSPECT(Heartbeat, x.incarnation, x.progress, x.longest_action_s, x.state, x.waiting_for,
               x.waits_long_for, x.resident_bytes, x.allocated, x.saved_bytes, x.mailbox_depth,
               x.links, x.edges)

#undef TROUPE_INSPECT

template <typename Inspector, typename Body>
typename Inspector::result_type inspect(Inspector& f, Observation<Body>& x) {
  return f(x.configuration, x.step, x.rank, x.body);
}

/// A histogram's counts are sent after their bins.
template <typename Inspector>
typename Inspector::result_type inspect(Inspector& f, ValueHistogram& x) {
  std::vector<std::int32_t> bins;
  std::vector<std::uint64_t> counts;
  if constexpr (Inspector::reads_state)
    for (const auto& [bin, count] : x.counts) {
      bins.push_back(bin);
      counts.push_back(count);
    }
  const auto load = [&]() -> caf::error {
    if (bins.size() != counts.size()) return caf::sec::invalid_argument;
    x.counts.clear();
    for (std::size_t i = 0; i < bins.size(); ++i) x.counts[bins[i]] += counts[i];
    return caf::none;
  };
  return f(x.elements, x.not_finite, on_wire(x.min), on_wire(x.max), on_wire(x.sum),
           on_wire(x.squares), bins, counts, caf::meta::load_callback(load));
}

/// A layout is sent as runs of equal chunks, to stay small: every rank gets one, and it has a chunk
/// for each stage.
template <typename Inspector>
typename Inspector::result_type inspect(Inspector& f, Layout& x) {
  std::vector<ChunkRun> runs;
  if constexpr (Inspector::reads_state) runs = runs_of(x);
  const auto load = [&]() -> caf::error {
    auto chunks = chunks_of(runs);
    if (!chunks) return caf::sec::invalid_argument;
    x.chunks = std::move(*chunks);
    return caf::none;
  };
  return f(x.stages, runs, caf::meta::load_callback(load));
}

}  // namespace troupe::actors
