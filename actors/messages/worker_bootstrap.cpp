#include "actors/messages/worker_bootstrap.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <sstream>

#include "tensor/errors/error.h"

namespace troupe::actors {

std::string to_text(const WorkerBootstrap& bootstrap) {
  return fmt::format("{}\n{}\n{}\n{}\n{}\n{}\n{:d}\n{}\n{}\n{}\n{}\n{}\n{}\n", bootstrap.host,
                     bootstrap.port, bootstrap.token, bootstrap.id, bootstrap.incarnation,
                     bootstrap.cores, bootstrap.has_agent, bootstrap.device, bootstrap.ports,
                     bootstrap.log_dir, bootstrap.on, bootstrap.run_dir,
                     fmt::join(bootstrap.failed_gpus, " "));
}

WorkerBootstrap parse_bootstrap(const std::string& text) {
  std::istringstream in(text);
  WorkerBootstrap bootstrap;
  std::string rest;
  if (std::getline(in, bootstrap.host) &&
      in >> bootstrap.port >> bootstrap.token >> bootstrap.id >> bootstrap.incarnation >>
          bootstrap.cores >> bootstrap.has_agent &&
      std::getline(in, rest) && std::getline(in, bootstrap.device) &&
      std::getline(in, bootstrap.ports) && std::getline(in, bootstrap.log_dir) &&
      std::getline(in, bootstrap.on) && std::getline(in, bootstrap.run_dir) &&
      std::getline(in, rest)) {
    std::istringstream gpus(rest);
    for (std::string gpu; gpus >> gpu;) bootstrap.failed_gpus.push_back(gpu);
    return bootstrap;
  }
  throw Error(
      ErrorKind::internal,
      "standard input holds no bootstrap text of a worker: workers are started by the launcher");
}

}  // namespace troupe::actors
