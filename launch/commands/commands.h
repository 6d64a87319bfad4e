#pragma once

#include "launch/commands/options.h"

namespace troupe::launch {

// The subcommands. Each returns the exit code, or throws an Error with one message for the user.

int run(const PrintText& text);
int run(const PlanOptions& options);
int run(const LaunchOptions& options);
int run(const StatusOptions& options);
int run(const RunsOptions& options);
int run(const AttachOptions& options);
int run(const ReportOptions& options);
int run(const TraceOptions& options);
int run(const TapOptions& options);
int run(const ScaleOptions& options);
int run(const CheckpointOptions& options);
int run(const StopOptions& options);
int run(const CollectivesOptions& options);
int run(const DoctorOptions& options);
int run(const GenerateOptions& options);
int run(const EvalOptions& options);
int run(const LogitsOptions& options);
int run(const ImportOptions& options);
int run(const ExportOptions& options);
int run(const TokenizeOptions& options);
int run(const ScheduleOptions& options);
int run(const DevicesOptions& options);
int run(const WorkerOptions& options);

}  // namespace troupe::launch
