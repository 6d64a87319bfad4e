#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "actors/monitors/hub.h"
#include "actors/monitors/straggler.h"
#include "launch/manifest/manifest.h"
#include "launch/monitors/event_log.h"
#include "launch/monitors/prometheus.h"
#include "launch/monitors/tensorboard.h"
#include "launch/monitors/web.h"

namespace troupe::launch {

/// The monitors that live with the run: events.jsonl, the watch for stragglers, and those that the
/// manifest switches on.
class Sinks {
 public:
  /// `print_error` gets a line for people where a sink cannot write; from the sink's thread. Throws
  /// Error{manifest} naming an address that cannot be bound. The hub outlives the sinks.
  Sinks(const Manifest& manifest, actors::Hub& hub,
        const std::function<void(const std::string&)>& print_error);

  /// Throws Error{manifest} where an address that the manifest names is not free now: told before
  /// anything is written or started.
  static void check(const Manifest& manifest);
  /// Throws Error{manifest} for an address that this machine does not have.
  static void check_hosts(const Manifest& manifest);

  /// {prometheus: URL, web: URL}, those that there are.
  nlohmann::json endpoints() const;

 private:
  EventLog events_;
  actors::StragglerWatch stragglers_;
  std::optional<TensorBoard> tensorboard_;
  std::optional<PrometheusEndpoint> prometheus_;
  std::optional<WebPage> web_;
};

}  // namespace troupe::launch
