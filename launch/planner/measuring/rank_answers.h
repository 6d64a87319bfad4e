#pragma once

#include "launch/planner/measuring/measuring_processes.h"

namespace troupe::launch {

/// How one of so many ranks, each of so many threads, answers {"measure": "products"}, {"measure":
/// "stage", "seq_len"} or {"measure": "all_reduce", "bytes"}: with what it took this rank. An
/// all-reduce is asked of several.
MeasuringProcesses::MakeAnswer rank_answers(int ranks, int threads);

}  // namespace troupe::launch
