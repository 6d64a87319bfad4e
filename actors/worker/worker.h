#pragma once

#include <functional>
#include <string>

#include "actors/messages/worker_bootstrap.h"
#include "actors/topology/run_spec.h"
#include "transport/ucx/ucx_environment.h"

namespace troupe::actors {

/// Runs a worker process from joining to the end. `parse` turns the manifest text into the spec;
/// `ucx` is the result of transport::prepare_ucx at the program's start. Returns the exit code.
int run_worker(const WorkerBootstrap& bootstrap,
               const std::function<RunSpec(const std::string&)>& parse,
               const transport::UcxEnvironment& ucx);

}  // namespace troupe::actors
