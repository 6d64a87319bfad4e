#include "launch/monitors/sinks.h"

#include <filesystem>
#include <vector>

#include "launch/manifest/run_spec.h"
#include "launch/run/run_directory.h"
#include "stages/model_config.h"

namespace troupe::launch {
namespace {

/// The model FLOP of training on one token: 6 for each parameter and, for attention, 12 * layers *
/// width * sequence (PaLM, arXiv 2204.02311, appendix B).
double flop_per_token(const actors::RunSpec& spec) {
  const auto& model = spec.model;
  return 6.0 * static_cast<double>(stages::num_parameters(model)) +
         12.0 * static_cast<double>(model.num_hidden_layers * model.num_attention_heads *
                                    model.head_dim * spec.batch.seq_len);
}

std::vector<KeyedAddress> addresses_of(const Manifest& manifest) {
  std::vector<KeyedAddress> addresses;
  for (const char* key : {"monitor.prometheus", "monitor.web"})
    if (const std::string& address = manifest.text(key); !address.empty())
      addresses.push_back({.key = key, .address = parse_http_address(address)});
  return addresses;
}

}  // namespace

Sinks::Sinks(const Manifest& manifest, actors::Hub& hub,
             const std::function<void(const std::string&)>& print_error)
    : events_(hub, std::filesystem::path(manifest.text("run.dir")) / kEventsFile, print_error),
      stragglers_(hub) {
  if (manifest.flag("monitor.tensorboard"))
    tensorboard_.emplace(hub, std::filesystem::path(manifest.text("run.dir")) / kTensorBoardFolder,
                         print_error);
  if (const std::string& address = manifest.text("monitor.prometheus"); !address.empty())
    prometheus_.emplace(hub, parse_http_address(address),
                        PeakRate{.flop_per_token = flop_per_token(to_run_spec(manifest)),
                                 .flop_per_s = manifest.number("monitor.peak_tflops") * 1e12});
  if (const std::string& address = manifest.text("monitor.web"); !address.empty())
    web_.emplace(hub, parse_http_address(address), manifest.text("run.name"),
                 manifest.texts("monitor.hosts"));
}

void Sinks::check(const Manifest& manifest) {
  check_can_bind(addresses_of(manifest));
}

void Sinks::check_hosts(const Manifest& manifest) {
  launch::check_hosts(addresses_of(manifest));
}

nlohmann::json Sinks::endpoints() const {
  nlohmann::json urls = nlohmann::json::object();
  if (prometheus_) urls["prometheus"] = prometheus_->url();
  if (web_) urls["web"] = web_->url();
  return urls;
}

}  // namespace troupe::launch
