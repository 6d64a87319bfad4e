#pragma once

#include "actors/topology/reports.h"
#include "launch/run/json_fields.h"

// What a run reports of its steps, as its files, events and status have it.

namespace troupe::launch {

TROUPE_JSON_FIELDS(actors::StepReport::StageTime, x.replica, x.stage, x.shard, x.busy_s, x.idle_s,
                   x.collective_s, unless_empty(x.device_used_bytes),
                   unless_empty(x.device_total_bytes))
TROUPE_JSON_FIELDS(actors::StepReport::EdgeBytes, x.from, x.to, x.bytes, x.wait_s)
TROUPE_JSON_FIELDS(actors::StepReport::Collectives, x.group, keyed("op", x.operation), x.count,
                   x.bytes, x.time_s, x.exposed_s)
TROUPE_JSON_FIELDS(actors::StepReport::SourceLoss, x.name, x.loss, x.tokens)
TROUPE_JSON_FIELDS(actors::StepReport::Measured, x.stages, x.edges, x.collectives)
TROUPE_JSON_FIELDS(actors::SetLoss, x.name, x.loss)

}  // namespace troupe::launch
