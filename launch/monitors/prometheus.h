#pragma once

#include <memory>
#include <string>

#include "actors/monitors/hub.h"
#include "launch/manifest/checks/http_address.h"
#include "launch/manifest/inputs/peak_rate.h"

namespace troupe::launch {

/// Answers a Prometheus server's scrapes under /metrics. launch/monitors/README.md lists the
/// metrics; launch/monitors/dashboards has alert rules and a dashboard for them.
class PrometheusEndpoint {
 public:
  /// Throws Error{manifest} naming the address if it cannot be bound.
  PrometheusEndpoint(actors::Hub& hub, const HttpAddress& address, const PeakRate& peak = {});
  ~PrometheusEndpoint();
  /// The URL of the metrics: "http://127.0.0.1:9090/metrics".
  std::string url() const;

 private:
  class Metrics;
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace troupe::launch
