#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace troupe::actors {

/// What a new worker process needs to join the run. The process receives it over a pipe that no
/// other process can read. Text form: one line a field.
struct WorkerBootstrap {
  std::string host;
  int port = 0;
  std::string token;
  int id = 0;  ///< Member::id
  std::uint64_t incarnation = 0;
  int cores = 0;       ///< RunSpec::Cluster::cores of the machine that the worker is started on
  std::string device;  ///< transport::UcxNetwork::interface there
  std::string ports;   ///< transport::UcxNetwork::ports
  std::string log_dir;
  std::string on;  ///< name of the host that it runs on; empty: the only one, which needs none
  /// Whether an agent has started it, which it asks for files that it reads (FilesNeeded).
  bool has_agent = false;
  /// The run's directory on its host, which does not see the manifest's; empty: it does.
  std::string run_dir;
  std::vector<std::string> failed_gpus{};  ///< RunSpec::Cluster::failed_gpus; without white space
};
std::string to_text(const WorkerBootstrap& bootstrap);
/// Throws Error{internal} for a text that to_text did not make.
WorkerBootstrap parse_bootstrap(const std::string& text);

}  // namespace troupe::actors
