#include "launch/web/web_page.h"

#include <CivetServer.h>
#include <fmt/format.h>

#include <chrono>
#include <mutex>
#include <optional>

#include "actors/monitors/subscriber_thread.h"
#include "launch/control/control_protocol.h"
#include "launch/manifest/host_names.h"
#include "launch/web/page.h"
#include "launch/web/web_state.h"
#include "tensor/error.h"

namespace troupe::launch {
namespace {

using namespace actors;
using Clock = std::chrono::steady_clock;

/// A page that has not asked for this long counts as closed.
constexpr std::chrono::seconds kLooking{5};

/// Subscribes to actions while a browser shows the page.
class Tracer {
 public:
  Tracer(Hub& hub, WebState& state) : hub_(hub), state_(state) {}
  void look() {
    const std::lock_guard lock(mutex_);
    last_look_ = Clock::now();
    if (!thread_)
      thread_.emplace(hub_, "web timeline", mask_of<ActionsTraced>(),
                      [this](const Subscription::Batch& batch) {
                        for (const auto& event : batch.events) state_.apply(*event);
                      });
  }
  void rest_if_nobody_looks() {
    const std::lock_guard lock(mutex_);
    if (thread_ && Clock::now() - last_look_ > kLooking) thread_.reset();
  }

 private:
  Hub& hub_;
  WebState& state_;
  std::mutex mutex_;  // guards the members below
  Clock::time_point last_look_;
  std::optional<SubscriberThread> thread_;
};

void reply(mg_connection* connection, const char* status, const char* type,
           const std::string& body) {
  mg_printf(connection,
            "HTTP/1.1 %s\r\nContent-Type: %s; charset=utf-8\r\nContent-Length: %zu\r\n"
            "Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n"
            "Content-Security-Policy: default-src 'none'; connect-src 'self'; style-src "
            "'unsafe-inline'; script-src 'unsafe-inline'\r\nConnection: close\r\n\r\n",
            status, type, body.size());
  mg_write(connection, body.data(), body.size());
}

}  // namespace

/// Answers GET / and GET /state if the request addresses this host by one of its names.
class WebPage::Handler : public CivetHandler {
 public:
  Handler(const HostNames& hosts, const WebState& state, Tracer& tracer)
      : hosts_(hosts), state_(state), tracer_(tracer) {}

  bool handleGet(CivetServer*, mg_connection* connection) override {
    const mg_request_info* request = mg_get_request_info(connection);
    const char* host = mg_get_header(connection, "Host");
    const std::string path = request->local_uri ? request->local_uri : "";
    if (!host || !hosts_.has(host)) {
      reply(connection, "403 Forbidden", "text/plain",
            "this page answers to its own names; give this one to the run in monitor.hosts\n");
    } else if (path == "/") {
      reply(connection, "200 OK", "text/html", kPage);
    } else if (path == "/state") {
      tracer_.look();
      reply(connection, "200 OK", "application/json", to_text(state_.snapshot()));
    } else {
      reply(connection, "404 Not Found", "text/plain", "there is / and /state\n");
    }
    return true;
  }

 private:
  const HostNames& hosts_;
  const WebState& state_;
  Tracer& tracer_;
};

struct WebPage::Parts {
  HttpAddress address;
  HostNames hosts;
  WebState state;
  Tracer tracer;
  Handler handler;
  std::optional<CivetServer> server;
  std::optional<SubscriberThread> thread;

  Parts(Hub& hub, const HttpAddress& where, const std::string& run,
        const std::vector<std::string>& names, const PeakRate& peak)
      : address(where),
        hosts(names, where),
        state(run, peak),
        tracer(hub, state),
        handler(hosts, state, tracer) {}
};

WebPage::WebPage(Hub& hub, const HttpAddress& address, const std::string& run,
                 const std::vector<std::string>& hosts, const PeakRate& peak)
    : parts_(std::make_unique<Parts>(hub, address, run, hosts, peak)) {
  try {
    parts_->server.emplace(std::vector<std::string>{"listening_ports", address.text(),
                                                    "num_threads", "2", "request_timeout_ms",
                                                    "5000", "enable_keep_alive", "no"});
  } catch (const std::exception& e) {
    throw Error(ErrorKind::manifest,
                fmt::format("monitor.web = \"{}\" cannot be used: {}; port 0 takes any free port",
                            address.text(), e.what()));
  }
  parts_->server->addHandler("/", parts_->handler);
  parts_->thread.emplace(hub, "web", all_events() & ~mask_of<ActionsTraced>(),
                         [parts = parts_.get()](const Subscription::Batch& batch) {
                           for (const auto& event : batch.events) parts->state.apply(*event);
                           parts->tracer.rest_if_nobody_looks();
                         });
}

WebPage::~WebPage() = default;

std::string WebPage::url() const {
  HttpAddress address = parts_->address;
  address.host = parts_->hosts.first();
  return address.url(parts_->server->getListeningPorts().at(0), "/");
}

}  // namespace troupe::launch
