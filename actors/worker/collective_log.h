#pragma once

#include <span>
#include <string>

#include "transport/collectives/flight_recorder.h"

namespace troupe::actors {

/// Replaces logs/rank-N/collectives.jsonl of a run by the last collectives of rank N, a line each,
/// the oldest first: {rank, configuration, group, sequence, operation, dtype, elements, alike (as
/// many at all members), by_device, started, finished (null: it did not finish, or the device
/// carried it), missing (ranks)}. Times are Unix seconds. Writes nothing if
/// there are no records. A file that cannot be written is left out: its reader is told of a worse
/// failure.
void write_collectives(const std::string& run_dir, int rank,
                       std::span<const transport::OperationRecord> records);

}  // namespace troupe::actors
