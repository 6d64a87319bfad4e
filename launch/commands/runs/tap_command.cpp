#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <array>

#include "launch/commands/commands.h"
#include "launch/control/control_protocol.h"
#include "launch/control/tap_request.h"
#include "launch/host/console.h"
#include "launch/host/signal_fd.h"
#include "launch/monitors/attachment.h"
#include "schedules/plan/counted.h"
#include "tensor/error.h"

namespace troupe::launch {
namespace {

using nlohmann::json;

/// The tap request of the command line's options.
actors::TapRequest request_of(const TapOptions& options) {
  actors::TapRequest tap = parse_edge(options.edge);
  tap.backward = options.backward;
  tap.every = options.every;
  tap.microbatch = options.microbatch;
  tap.only_not_finite = options.not_finite;
  tap.dump = options.dump;
  tap.samples = options.samples;
  return tap;
}

/// Throws Error{unavailable} if no tensor can match the tap after a change of the cluster.
void check_change(const json& event, const actors::TapRequest& tap, const json& status) {
  json now = status;
  now["pipeline"] = event.at("pipeline");
  now["step"] = event.at("step");
  if (const std::string why = never_fits(tap, now); !why.empty())
    throw Error(
        ErrorKind::unavailable,
        fmt::format("the tap ends at step {}, since the cluster is pp {} x dp {} with "
                    "schedule {}: {}",
                    event.at("step").get<std::int64_t>(), event.at("pp").get<int>(),
                    event.at("dp").get<int>(), event.at("schedule").get<std::string>(), why));
}

}  // namespace

int run(const TapOptions& options) {
  const actors::TapRequest tap = request_of(options);
  SignalFd signals{SIGINT, SIGTERM, SIGHUP};
  auto opened = Attachment::open(options.run, {.kinds = "tensor,membership",
                                               .who = fmt::format("tap of pid {}", getpid()),
                                               .tap = to_json(tap)});
  if (const auto* ending = std::get_if<Ending>(&opened))
    throw Error(ErrorKind::unavailable, "nothing to tap: " + describe(*ending, options.run));
  Attachment& run = *std::get<std::unique_ptr<Attachment>>(opened);
  if (const std::string why = never_fits(tap, run.status()); !why.empty())
    throw Error(ErrorKind::usage, why);
  print_error("waits for " + describe(tap) + "; Ctrl-C leaves");
  for (std::int64_t samples = 0;;) {
    std::array<pollfd, 2> ready{{{.fd = run.fd(), .events = POLLIN, .revents = 0},
                                 {.fd = signals.fd(), .events = POLLIN, .revents = 0}}};
    poll(ready.data(), ready.size(), -1);
    if (signals.take() != 0) return 0;
    const Attachment::News news = run.take();
    if (news.dropped > 0) print(to_text({{"kind", "dropped"}, {"dropped", news.dropped}}) + "\n");
    for (const json& event : news.events) {
      if (event.value("kind", "") == "membership") {
        check_change(event, tap, run.status());
        continue;
      }
      print(to_text(event) + "\n");
      if (++samples == tap.samples) return 0;
    }
    if (!news.ended) continue;
    if (samples >= tap.samples) return 0;
    throw Error(ErrorKind::unavailable,
                fmt::format("of {} wanted, {} came: {}", schedules::counted(tap.samples, "sample"),
                            samples, describe(*news.ended, options.run)));
  }
}

}  // namespace troupe::launch
