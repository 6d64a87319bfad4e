#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "actors/monitors/hub.h"
#include "actors/monitors/straggler.h"
#include "launch/manifest/toml/manifest.h"
#include "launch/monitors/event_log.h"
#include "launch/monitors/prometheus.h"
#include "launch/monitors/step_sampler.h"
#include "launch/monitors/tensorboard.h"
#include "launch/web/web_page.h"

namespace troupe::launch {

/// The addresses that the manifest names for monitors, by their keys.
std::vector<KeyedAddress> monitor_addresses(const Manifest& manifest);

/// The monitors in the launching process: events.jsonl, measured_step.json, the straggler watch,
/// and those that the manifest switches on.
class Sinks {
 public:
  /// `print_error` is called from a sink's thread, with a line for people, if the sink cannot
  /// write. Throws Error{manifest} naming an address that cannot be bound. The hub must outlive the
  /// sinks.
  /// `peak` is for the model FLOP utilization.
  /// `access` is what the page may use of the run. Once the claim to the run's directory has
  /// fallen, nothing is written there.
  Sinks(const Manifest& manifest, const PeakRate& peak, actors::Hub& hub, PageAccess access,
        const std::function<void(const std::string&)>& print_error, const stages::Claim& claim);

  /// The run has ended: shows it to those who look at the page, and waits for them for a moment.
  void finish(const actors::Outcome& outcome);
  /// The URLs of the monitors that are switched on: {prometheus: URL, web: URL}.
  nlohmann::json endpoints() const;
  /// The stages that were lately found to be slow.
  std::vector<actors::StragglerFound> stragglers() const { return stragglers_.recent(); }

 private:
  EventLog events_;
  StepSampler steps_;
  actors::StragglerWatch stragglers_;
  std::optional<TensorBoard> tensorboard_;
  std::optional<PrometheusEndpoint> prometheus_;
  std::optional<WebPage> web_;
};

}  // namespace troupe::launch
