#pragma once

#include <functional>
#include <string>

#include "actors/messages/worker_bootstrap.h"
#include "actors/topology/run_spec.h"
#include "transport/ucx/ucx_environment.h"

namespace troupe::actors {

/// A worker process's whole life. `parse` turns the manifest text into the spec, `ucx` is what the
/// program's start found (transport::prepare_ucx). Returns the exit code.
int run_worker(const WorkerBootstrap& bootstrap,
               const std::function<RunSpec(const std::string&)>& parse,
               const transport::UcxEnvironment& ucx);

}  // namespace troupe::actors
