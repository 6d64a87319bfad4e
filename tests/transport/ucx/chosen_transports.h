#pragma once

#include <cstdlib>
#include <optional>
#include <string>

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

}  // namespace troupe::test
