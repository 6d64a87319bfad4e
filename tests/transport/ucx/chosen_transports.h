#pragma once

#include <cstdlib>
#include <optional>
#include <string>

#include "transport/ucx/ucx_environment.h"

namespace troupe::test {

/// Restricts the transports of nodes and child processes that are made during its lifetime.
class ChosenTransports {
 public:
  explicit ChosenTransports(const char* names) {
    if (const char* before = std::getenv("UCX_TLS")) before_ = before;
    ::setenv("UCX_TLS", names, 1);
  }
  ~ChosenTransports() {
    before_ ? ::setenv("UCX_TLS", before_->c_str(), 1) : ::unsetenv("UCX_TLS");
  }
  ChosenTransports(const ChosenTransports&) = delete;
  ChosenTransports& operator=(const ChosenTransports&) = delete;

 private:
  std::optional<std::string> before_;
};

/// The settings for nodes that other hosts reach, for those that are made during its lifetime.
class ChosenNetwork {
 public:
  explicit ChosenNetwork(const transport::UcxNetwork& network)
      : environment(transport::prepare_ucx(network)) {}
  ~ChosenNetwork() {
    for (const char* name : {"TCP_PORT_RANGE", "TCP_AF_PRIO", "TCP_CONN_NB", "KEEPALIVE_INTERVAL"})
      ::unsetenv((std::string("UCX_") + name).c_str());
  }
  ChosenNetwork(const ChosenNetwork&) = delete;
  ChosenNetwork& operator=(const ChosenNetwork&) = delete;

  const transport::UcxEnvironment environment;
};

}  // namespace troupe::test
