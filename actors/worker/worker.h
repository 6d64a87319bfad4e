#pragma once

#include <functional>
#include <string>

#include "actors/messages/worker_bootstrap.h"
#include "actors/topology/run_spec.h"

namespace troupe::actors {

/// A worker process's whole life. `parse` turns the manifest text into the spec. Returns the exit
/// code.
int run_worker(const WorkerBootstrap& bootstrap,
               const std::function<RunSpec(const std::string&)>& parse);

}  // namespace troupe::actors
