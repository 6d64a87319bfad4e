#include "launch/commands/launching/sinks.h"

#include <filesystem>
#include <utility>

#include "launch/manifest/resolve/run_spec.h"
#include "launch/run/run_directory.h"

namespace troupe::launch {
namespace {

WatchedRun watched_run(const Manifest& manifest, const PeakRate& peak) {
  const std::filesystem::path run = manifest->dir;
  return {.name = manifest->name,
          .max_steps = manifest->max_steps,
          .peak = peak,
          .spec = [path = run / kManifestFile] { return to_run_spec(Manifest::read(path, {})); },
          .past_steps = read_metrics(run / kMetricsFile),
          .past_events = read_json_lines(run / kEventsFile)};
}

}  // namespace

std::vector<KeyedAddress> monitor_addresses(const Manifest& manifest) {
  std::vector<KeyedAddress> addresses;
  for (const std::string* address : {&manifest->monitor.prometheus, &manifest->monitor.web})
    if (!address->empty())
      addresses.push_back(
          {.key = manifest.key_of(*address).full_name(), .address = parse_http_address(*address)});
  return addresses;
}

Sinks::Sinks(const Manifest& manifest, const PeakRate& peak, actors::Hub& hub, PageAccess access,
             const std::function<void(const std::string&)>& print_error, const stages::Claim& claim)
    : events_(hub, std::filesystem::path(manifest->dir) / kEventsFile, print_error, claim),
      steps_(hub, std::filesystem::path(manifest->dir) / kMeasuredStepFile, claim),
      stragglers_(hub) {
  if (manifest->monitor.tensorboard)
    tensorboard_.emplace(hub, std::filesystem::path(manifest->dir) / kTensorBoardFolder,
                         print_error);
  if (const std::string& address = manifest->monitor.prometheus; !address.empty())
    prometheus_.emplace(hub, parse_http_address(address), peak);
  if (const std::string& address = manifest->monitor.web; !address.empty())
    web_.emplace(hub, parse_http_address(address), watched_run(manifest, peak),
                 manifest->monitor.hosts, std::move(access));
}

void Sinks::finish(const actors::Outcome& outcome) {
  if (web_) web_->finish(outcome);
}

nlohmann::json Sinks::endpoints() const {
  nlohmann::json urls = nlohmann::json::object();
  if (prometheus_) urls["prometheus"] = prometheus_->url();
  if (web_) urls["web"] = web_->url();
  return urls;
}

}  // namespace troupe::launch
