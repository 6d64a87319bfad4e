#pragma once

#include <memory>
#include <string>

#include "actors/monitors/hub.h"
#include "launch/monitors/http_address.h"

namespace troupe::launch {

/// Answers a Prometheus server's scrapes under /metrics. What each metric is stands in
/// launch/README.md; alert rules and a dashboard for them lie in launch/monitors/dashboards.
class PrometheusEndpoint {
 public:
  /// Throws Error{manifest} naming the address if it cannot be bound.
  PrometheusEndpoint(actors::Hub& hub, const HttpAddress& address);
  ~PrometheusEndpoint();
  /// "http://127.0.0.1:9090/metrics".
  std::string url() const;

 private:
  class Metrics;
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace troupe::launch
