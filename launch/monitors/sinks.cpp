#include "launch/monitors/sinks.h"

#include <filesystem>

#include "launch/run_directory.h"

namespace troupe::launch {

Sinks::Sinks(const Manifest& manifest, actors::Hub& hub,
             const std::function<void(const std::string&)>& complain)
    : events_(hub, std::filesystem::path(manifest.text("run.dir")) / kEventsFile, complain),
      stragglers_(hub) {
  if (manifest.flag("monitor.tensorboard"))
    tensorboard_.emplace(hub, std::filesystem::path(manifest.text("run.dir")) / kTensorBoardFolder,
                         complain);
  if (const std::string& address = manifest.text("monitor.prometheus"); !address.empty())
    prometheus_.emplace(hub, parse_http_address(address));
  if (const std::string& address = manifest.text("monitor.web"); !address.empty())
    web_.emplace(hub, parse_http_address(address), manifest.text("run.name"));
}

nlohmann::json Sinks::endpoints() const {
  nlohmann::json urls = nlohmann::json::object();
  if (prometheus_) urls["prometheus"] = prometheus_->url();
  if (web_) urls["web"] = web_->url();
  return urls;
}

}  // namespace troupe::launch
