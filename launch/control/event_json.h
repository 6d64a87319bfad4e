#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "actors/monitors/event.h"
#include "launch/run/metrics_file.h"

// What a run tells to readers outside its process, and what they read. A reader shows what it can
// of a run of another version, as launch/run/json_fields.h says.

namespace troupe::launch {

TROUPE_JSON_FIELDS(actors::ActionsTraced::Action, x.name, x.queued_s, x.begin_s, x.end_s, x.from,
                   x.to, x.waited_s, x.collective_s, x.sent_s)
TROUPE_JSON_FIELDS(actors::ActionsTraced::Collective, x.group, keyed("op", x.operation), x.bucket,
                   x.begin_s, x.end_s)
TROUPE_JSON_FIELDS(actors::ClockAhead, keyed("ahead_s", x.seconds), x.error_s)
TROUPE_JSON_FIELDS(actors::ActionsTraced, x.actions, x.collectives, x.complete, x.clock)
TROUPE_JSON_FIELDS(actors::CatchUp, x.back_to, x.reached)
TROUPE_JSON_FIELDS(actors::RecoveryPhases, x.detect_s, x.decide_s, x.spawn_s, x.move_s, x.rebuild_s,
                   x.catch_up_s, x.first_step_s)
TROUPE_JSON_FIELDS(actors::Pipeline, x.pp, x.dp, x.tp, unless_empty(x.ep),
                   unless_empty(x.dp_of_stage), unless_empty(x.tp_of_stage), x.stage_of_chunk,
                   x.copies, x.microbatches)
TROUPE_JSON_FIELDS(actors::AllocatedMemory, x.stage.weights, x.stage.gradients, x.stage.optimizer,
                   x.stage.activations, x.stage.packed, x.stage.gathered,
                   keyed("buckets", x.stage.buckets + x.buckets), x.collectives, x.pools,
                   keyed("total", x.total()))
TROUPE_JSON_FIELDS(actors::WorkerGpu, x.index, x.name, x.uuid)
TROUPE_JSON_FIELDS(actors::RankStatus, x.rank, x.replica, x.stage, x.shard, x.pid, x.host, x.gpu,
                   x.state, x.waiting_for, unless_empty(x.collectives), unless_empty(x.edges),
                   x.resident_bytes, keyed("memory_bytes", x.allocated))

TROUPE_JSON_FIELDS(actors::HostStatus, x.host, x.state, unless_empty(x.cause), x.address,
                   x.incarnation, x.slots, x.losses, x.ranks, unless_empty(x.host_bytes),
                   unless_empty(x.network_bytes), x.clock)

TROUPE_JSON_FIELDS(actors::StragglerFound, x.replica, x.stage, x.shard, x.score, x.busy_s,
                   x.usual_busy_s)

/// An event as monitors outside the process and events.jsonl get it: {time, kind, configuration,
/// step, and the fields of its kind}. It has `rank` if it concerns a rank. `time` is in Unix
/// seconds; names of durations end in _s. launch/monitors/README.md lists the fields of each kind.
nlohmann::json to_json(const actors::RunEvent& event);
/// The event of which to_json() made `json`; none for a kind that is not known, or `tensor` and
/// `histograms`, which no picture needs.
std::optional<actors::RunEvent> received_event(const nlohmann::json& json);

/// What `progress` of a status calls steps that are computed again.
inline constexpr const char* kCatchingUp = "catching up";
/// A status as {run, state, step, max_steps, configuration, refused, pipeline, progress,
/// resident_bytes, ranks}; launch/control/README.md tells more of them.
nlohmann::json to_json(const actors::RunStatus& status, const std::string& run);
/// The status of which to_json() made `json`, without what is under way but steps that are computed
/// again.
actors::RunStatus received_status(const nlohmann::json& json);

/// The kinds named in a text such as "step,failure"; all for an empty text. Throws Error{usage}
/// naming a kind that does not exist.
actors::EventMask parse_kinds(const std::string& names);

}  // namespace troupe::launch
