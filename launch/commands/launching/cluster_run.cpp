#include "launch/commands/launching/cluster_run.h"

#include <fmt/format.h>

#include <iostream>
#include <iterator>
#include <utility>

#include "actors/worker/worker.h"
#include "launch/commands/options.h"
#include "launch/control/event_json.h"
#include "launch/hosts/job.h"
#include "launch/manifest/resolve/run_spec.h"
#include "tensor/errors/shortage.h"

namespace troupe::launch {
namespace {

/// The lines that tell where a browser and a Prometheus server find the run.
std::string endpoint_lines(const nlohmann::json& endpoints) {
  std::string lines;
  for (const auto& [name, title] : {std::pair("web", "page"), std::pair("prometheus", "metrics")})
    if (endpoints.contains(name))
      lines += fmt::format("{:<9} {}\n", title, endpoints.at(name).get<std::string>());
  return lines;
}

}  // namespace

actors::Outcome ClusterRun::run(std::int64_t begins_after) {
  actors::Outcome outcome{
      .exit_code = static_cast<int>(ErrorKind::internal), .step = begins_after, .reason = ""};
  try {
    outcome = run_cluster();
  } catch (const Error& error) {
    outcome.exit_code = static_cast<int>(error.kind());
    outcome.reason = error.what();
  } catch (const std::exception& error) {
    outcome.reason = error.what();
    if (const auto lacks = as_shortage(error)) {
      outcome.exit_code = static_cast<int>(lacks->kind());
      outcome.reason = lacks->what();
    }
  }
  with_.signals.orders({});
  auto lost = with_.directory.lost();
  if (!lost && fallen_)  // it is there again, but others may have changed it
    lost = {.kind = ErrorKind::internal, .text = with_.directory.claim().fault()};
  fallen_ = lost.has_value();
  if (!lost) return outcome;
  return {.exit_code = static_cast<int>(lost->kind), .step = outcome.step, .reason = lost->text};
}

actors::Outcome ClusterRun::run_cluster() {
  cluster_ =
      actors::Cluster::create(with_.spec,
                              {.manifest = with_.manifest.to_toml(),
                               .worker_command = {"/proc/self/exe", "worker"},
                               .memory_bytes = with_.machine.memory_bytes,
                               .claim = with_.directory.claim(),
                               .hosts = with_.hosts,
                               .ends_s = own_time_limit(),
                               .term = static_cast<std::uint64_t>(with_.directory.term().number),
                               .predecessor = with_.predecessor},
                              *this);
  RunPort run = port();
  const PageAccess page{.token = with_.control.token(),
                        .run = run,
                        .manifest = [path = with_.directory.path() /
                                            kManifestFile] { return Manifest::read(path, {}); },
                        .machine = with_.machine};
  sinks_.emplace(
      with_.manifest, with_.peak, cluster_->hub(), page,
      [this](const std::string& text) { with_.log.on_event(text); }, with_.directory.claim());
  with_.console.show(endpoint_lines(sinks_->endpoints()));
  serve_signals();
  run.status = [this] { return status(); };  // which tells of the sinks too, that stand now
  with_.control.serve(std::move(run));
  return cluster_->run();
}

/// Whether the claim to the directory stands. Stops the run when it has fallen.
bool ClusterRun::stands() {
  if (fallen_) return false;
  const auto lost = with_.directory.lost();
  fallen_ = lost.has_value();
  if (lost) cluster_->stop_now(lost->text);
  return !fallen_;
}

void ClusterRun::on_hosts() {
  if (!stands()) return;
  try {
    with_.record_hosts();
  } catch (const Error& error) {
    with_.log.on_event(std::string(error.what()) + "; another launcher may not find all hosts");
  }
}

void ClusterRun::show_end(const actors::Outcome& outcome) {
  if (sinks_) sinks_->finish(outcome);
}

// --- orders

void ClusterRun::stop(const std::string& reason) {
  stopped_ = true;
  cluster_->stop(reason);
}

RunPort ClusterRun::port() {
  return {.status = [this] { return to_json(cluster_->status(), with_.spec.name); },
          .stop = [this](const std::string& reason) { stop(reason); },
          .scale = [this](const actors::ScaleRequest& request,
                          auto answer) { cluster_->scale(request, std::move(answer)); },
          .save = [this](auto answer) { cluster_->save(std::move(answer)); },
          .hub = &cluster_->hub()};
}

void ClusterRun::serve_signals() {
  with_.signals.orders({.save = [this](const std::string& signal) { save_at(signal); },
                        .stop = [this](const std::string& reason) { stop(reason); },
                        .stop_now =
                            [this](const std::string& reason) {
                              stopped_ = true;
                              cluster_->stop_now(reason);
                            }});
}

TROUPE_JSON_FIELDS(RunLog::Pace, x.loss, x.tokens_per_s, keyed("time_left_s", x.left_s), x.mfu,
                   unless_empty(x.sources), unless_empty(x.device_used_bytes),
                   unless_empty(x.device_total_bytes))

/// The reply to a status request while the run lives.
nlohmann::json ClusterRun::status() {
  nlohmann::json status = to_json(cluster_->status(), with_.spec.name);
  if (const auto pace = with_.log.pace()) status.update(nlohmann::json(*pace));
  status["endpoints"] = sinks_->endpoints();
  status["troubles"] = with_.log.troubles();
  if (with_.hosts) {
    status["strangers"] = with_.hosts->refused() + with_.control.refused();
    status["stragglers"] = sinks_->stragglers();
  }
  const actors::Hub::Counts hub = cluster_->hub().counts();
  status["monitors"] = {{"attached", hub.subscribers},
                        {"published", hub.published},
                        {"dropped", hub.dropped},
                        {"busy_s", hub.busy_s}};
  return status;
}

/// Saves the run because of a signal that warns of its end, and tells what becomes of it.
void ClusterRun::save_at(const std::string& signal) {
  RunLog& log = with_.log;
  log.on_event(signal + ": the run saves its next step and goes on; another signal ends it");
  cluster_->save([signal, &log](const actors::SaveAnswer& answer) {
    log.on_event(answer.code == 0 ? fmt::format("{}: step {} is saved", signal, answer.step)
                                  : fmt::format("{}: {}", signal, answer.text));
  });
}

// --- a worker

int run(const WorkerOptions&) {
  const std::string text{std::istreambuf_iterator<char>(std::cin), {}};
  const actors::WorkerBootstrap bootstrap = actors::parse_bootstrap(text);
  const transport::UcxEnvironment ucx =
      transport::prepare_ucx({.interface = bootstrap.device, .ports = bootstrap.ports});
  return actors::run_worker(bootstrap, parse_resolved, ucx);
}

}  // namespace troupe::launch
