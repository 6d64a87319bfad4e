#include "launch/web/web_page.h"

#include <CivetServer.h>
#include <fmt/format.h>

#include <chrono>
#include <future>
#include <mutex>
#include <optional>

#include "actors/monitors/subscriber_thread.h"
#include "actors/topology/schedule_kinds.h"
#include "launch/charts/markup.h"
#include "launch/control/control_protocol.h"
#include "launch/web/page.h"
#include "launch/web/state_replies.h"
#include "tensor/errors/error.h"

namespace troupe::launch {
namespace {

using namespace actors;
using Clock = std::chrono::steady_clock;

/// A page that has not asked for this long counts as closed.
constexpr std::chrono::milliseconds kLooking = StateReplies::kLooking;
/// How long a run that has ended waits for its readers, who ask each second.
constexpr std::chrono::milliseconds kLastLook{2000};
/// Requests that are answered at a time. A reader that does not take its answer holds up one of
/// these, for as long as a request may take, and nothing else.
constexpr int kThreads = 8 + StateReplies::kMostWaiting;

/// The page, with the kinds of schedules that can be ordered in their list.
std::string page_of(const WatchedRun& run) {
  constexpr std::string_view kPlace = "<!-- schedules -->";
  std::string options, body = kPageBody;
  for (const std::string_view kind : schedule_kinds())
    options += text_element("option", {}, std::string(kind));
  body.replace(body.find(kPlace), kPlace.size(), options);
  return document({.title = run.name, .body = body, .style = kPageStyle, .script = kPageScript});
}

/// Subscribes to actions while a browser shows the page.
class Tracer {
 public:
  Tracer(Hub& hub, RunWatch& watch) : hub_(hub), watch_(watch) {}
  void look() {
    const std::lock_guard lock(mutex_);
    last_look_ = Clock::now();
    if (!thread_)
      thread_.emplace(hub_, "web timeline", mask_of<ActionsTraced>(),
                      [this](const Subscription::Batch& batch) {
                        for (const auto& event : batch.events) watch_.apply(*event);
                      });
  }
  void rest_if_nobody_looks() {
    const std::lock_guard lock(mutex_);
    if (thread_ && Clock::now() - last_look_ > kLooking) thread_.reset();
  }

 private:
  Hub& hub_;
  RunWatch& watch_;
  std::mutex mutex_;  // guards the members below
  Clock::time_point last_look_;
  std::optional<SubscriberThread> thread_;
};

/// What `make` returns, made on a thread of its own: the stack of civetweb's threads has 100 KiB,
/// and to show an order before it is given is to plan a run.
template <typename Make>
auto on_roomy_stack(const Make& make) {
  return std::async(std::launch::async, make).get();
}

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

/// The body of a request; of one that is longer than any order, the beginning.
std::string body_of(mg_connection* connection) {
  std::string body(CommandHandler::kMostBytes, '\0');
  std::size_t size = 0;
  for (int got = 1; size < body.size() && got > 0; size += static_cast<std::size_t>(got))
    if (got = mg_read(connection, body.data() + size, body.size() - size); got < 0) break;
  body.resize(size);
  return body;
}

}  // namespace

/// Answers GET /, GET /state and POST /order if the request addresses this host by one of its
/// names.
struct WebPage::Parts : public CivetHandler {
  HttpAddress address;
  HostNames hosts;
  RunWatch watch;
  StateReplies replies;
  CommandHandler orders;
  Tracer tracer;
  std::string page;
  std::optional<CivetServer> server;
  std::optional<SubscriberThread> thread;

  Parts(Hub& hub, const HttpAddress& where, const WatchedRun& run,
        const std::vector<std::string>& names, PageAccess access)
      : address(where),
        hosts(names, where),
        watch(run),
        replies(watch, Advisor(run.spec)),
        orders(std::move(access)),
        tracer(hub, watch),
        page(page_of(run)) {}

  bool handleGet(CivetServer*, mg_connection* connection) override {
    if (!is_for_us(connection)) return true;
    const std::string path = path_of(connection);
    if (path == "/") {
      reply(connection, "200 OK", "text/html", page);
    } else if (path == "/state") {
      const char* asked = mg_get_request_info(connection)->query_string;
      const std::string query = asked ? asked : "";
      if (query.find("until=end") == query.npos) tracer.look();
      replies.begin(query);
      auto state = on_roomy_stack([&] { return replies.reply_to(query); });
      state["order"] = orders.newest();
      reply(connection, "200 OK", "application/json", to_text(state));
      replies.sent(query, state);
    } else {
      refuse_path(connection);
    }
    return true;
  }

  bool handlePost(CivetServer*, mg_connection* connection) override {
    if (!is_for_us(connection)) return true;
    if (path_of(connection) != "/order") return refuse_path(connection);
    const auto answer = on_roomy_stack(
        [&, body = body_of(connection)] { return orders.answer(body, watch.step_s()); });
    const std::string status = answer.status == 200   ? "200 OK"
                               : answer.status == 403 ? "403 Forbidden"
                                                      : "400 Bad Request";
    reply(connection, status.c_str(), "application/json", to_text(answer.body));
    return true;
  }

  static std::string path_of(const mg_connection* connection) {
    const char* path = mg_get_request_info(connection)->local_uri;
    return path ? path : "";
  }

  static bool refuse_path(mg_connection* connection) {
    reply(connection, "404 Not Found", "text/plain", "there is /, /state and /order\n");
    return true;
  }

  /// Whether the request names this host; if not, it is answered.
  bool is_for_us(mg_connection* connection) const {
    const char* host = mg_get_header(connection, "Host");
    if (host && hosts.has(host)) return true;
    reply(connection, "403 Forbidden", "text/plain",
          "this page answers to its own names; give this one to the run in monitor.hosts\n");
    return false;
  }
};

WebPage::WebPage(Hub& hub, const HttpAddress& address, const WatchedRun& run,
                 const std::vector<std::string>& hosts, PageAccess access)
    : parts_(std::make_unique<Parts>(hub, address, run, hosts, std::move(access))) {
  try {
    parts_->server.emplace(std::vector<std::string>{
        "listening_ports", address.text(), "num_threads", std::to_string(kThreads),
        "request_timeout_ms", "5000", "enable_keep_alive", "no"});
  } catch (const std::exception& e) {
    throw Error(ErrorKind::manifest,
                fmt::format("monitor.web = \"{}\" cannot be used: {}; port 0 takes any free port",
                            address.text(), e.what()));
  }
  parts_->server->addHandler("/", *parts_);
  parts_->thread.emplace(hub, "web", all_events() & ~mask_of<ActionsTraced, ParametersSeen>(),
                         [parts = parts_.get()](const Subscription::Batch& batch) {
                           for (const auto& event : batch.events) parts->watch.apply(*event);
                           parts->tracer.rest_if_nobody_looks();
                         });
}

WebPage::~WebPage() {
  parts_->replies.release();
}

void WebPage::finish(const Outcome& outcome) {
  parts_->thread.reset();  // has applied all that the run told
  parts_->watch.end(outcome);
  parts_->replies.wait_for_readers(kLastLook);
}

std::string WebPage::url() const {
  HttpAddress address = parts_->address;
  address.host = parts_->hosts.first();
  return address.url(parts_->server->getListeningPorts().at(0), "/");
}

}  // namespace troupe::launch
