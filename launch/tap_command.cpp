#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <array>

#include "launch/commands.h"
#include "launch/console.h"
#include "launch/control_protocol.h"
#include "launch/monitors/attachment.h"
#include "launch/signal_fd.h"
#include "launch/tap_request.h"
#include "tensor/error.h"

namespace troupe::launch {
namespace {

using nlohmann::json;

/// A step's report names every edge between two ranks.
void check_edge(const json& step, const actors::TapRequest& tap) {
  std::string edges;
  for (const json& edge : step.value("edges", json::array())) {
    const int from = edge.value("from", -1), to = edge.value("to", -1);
    if (from == tap.from && to == tap.to) return;
    edges += fmt::format("{}{}:{}", edges.empty() ? "" : ", ", from, to);
  }
  throw Error(ErrorKind::usage, edges.empty()
                                    ? std::string("a run of one stage has no edge to tap")
                                    : fmt::format("--edge {}:{}: no such edge; there are {}",
                                                  tap.from, tap.to, edges));
}

}  // namespace

int run(const TapOptions& options) {
  actors::TapRequest tap = parse_edge(options.edge);
  tap.backward = options.backward;
  tap.every = options.every;
  tap.microbatch = options.microbatch;
  tap.only_not_finite = options.not_finite;
  tap.dump = options.dump;
  SignalFd signals{SIGINT, SIGTERM, SIGHUP};
  auto opened = Attachment::open(
      options.run,
      {.kinds = "tensor,step", .who = fmt::format("tap of pid {}", getpid()), .tap = to_json(tap)});
  if (const auto* ending = std::get_if<Ending>(&opened))
    throw Error(ErrorKind::unavailable, "nothing to tap: " + describe(*ending, options.run));
  Attachment& run = *std::get<std::unique_ptr<Attachment>>(opened);
  for (std::int64_t samples = 0;;) {
    std::array<pollfd, 2> ready{{{.fd = run.fd(), .events = POLLIN, .revents = 0},
                                 {.fd = signals.fd(), .events = POLLIN, .revents = 0}}};
    poll(ready.data(), ready.size(), -1);
    if (signals.take() != 0) return 0;
    const Attachment::News news = run.take();
    if (news.dropped > 0)
      print_or_stop(to_text({{"kind", "dropped"}, {"dropped", news.dropped}}) + "\n");
    for (const json& event : news.events) {
      if (event.value("kind", "") == "step") check_edge(event, tap);
      if (!fits(tap, event)) continue;
      print_or_stop(to_text(event) + "\n");
      if (++samples == options.samples) return 0;
    }
    if (news.ended) return 0;
  }
}

}  // namespace troupe::launch
