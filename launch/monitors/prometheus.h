#pragma once

#include <memory>
#include <string>

#include "actors/monitors/hub.h"
#include "launch/manifest/http_address.h"

namespace troupe::launch {

/// For troupe_train_mfu_ratio: model FLOP a trained token, and what a rank could do at most.
struct PeakRate {
  double flop_per_token = 0;
  double flop_per_s = 0;  ///< 0: unknown, and no ratio is told
};

/// Answers a Prometheus server's scrapes under /metrics. What each metric is stands in
/// launch/README.md; alert rules and a dashboard for them lie in launch/monitors/dashboards.
class PrometheusEndpoint {
 public:
  /// Throws Error{manifest} naming the address if it cannot be bound.
  PrometheusEndpoint(actors::Hub& hub, const HttpAddress& address, const PeakRate& peak = {});
  ~PrometheusEndpoint();
  /// "http://127.0.0.1:9090/metrics".
  std::string url() const;

 private:
  class Metrics;
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace troupe::launch
