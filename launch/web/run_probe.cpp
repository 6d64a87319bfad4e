#include <fmt/format.h>

#include <chrono>

#include "launch/control/event_json.h"
#include "launch/control/tap_request.h"
#include "launch/monitors/trace_collector.h"
#include "launch/web/command_handler.h"
#include "tensor/errors/error.h"

namespace troupe::launch {
namespace {

using namespace actors;
using nlohmann::json;
using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kPatience{20};
constexpr std::int64_t kMostSteps = 20;
constexpr std::int64_t kSamples = 4;

/// Passes on events until `enough` is true of one, the run ends or nobody would wait any longer.
void listen(Hub& hub, Hub::SubscribeOptions options,
            const std::function<bool(const RunEvent&)>& enough) {
  const auto subscription = hub.subscribe(std::move(options));
  const auto end = Clock::now() + kPatience;
  while (Clock::now() < end) {
    const Subscription::Batch batch = subscription->take(64);
    for (const auto& event : batch.events)
      if (enough(*event)) return;
    if (batch.closed) return;
    if (batch.events.empty())
      subscription->wait(std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now()));
  }
}

std::string line_of(const RunEvent& event, const TensorSummary& tensor, int microbatch) {
  return fmt::format(
      "step {}, microbatch {}: {} elements, norm {:.4g}, mean {:.4g}, from {:.4g} to {:.4g}{}\n",
      event.step, microbatch, tensor.elements, tensor.norm, tensor.mean, tensor.min, tensor.max,
      tensor.not_finite > 0 ? fmt::format(", {} not finite", tensor.not_finite) : "");
}

}  // namespace

json trace_steps(Hub& hub, const json& status, std::int64_t steps) {
  if (steps < 1 || steps > kMostSteps)
    refuse(fmt::format(
        "{} steps cannot be traced from the page; 1 to {} can, and troupe trace takes more", steps,
        kMostSteps));
  TraceCollector collector(status, static_cast<int>(steps));
  listen(hub, {.kinds = mask_of<ActionsTraced, MembershipChanged>()}, [&](const RunEvent& event) {
    collector.add(to_json(event));
    return collector.done();
  });
  if (collector.num_complete() == 0)
    throw Error(ErrorKind::unavailable,
                fmt::format("no step was complete in {} s", kPatience.count()));
  return collector.chrome_trace();
}

std::string tap_edge(Hub& hub, const json& status, const std::string& edge, bool backward) {
  const TapRequest request = parse_edge(edge, {.backward = backward, .samples = kSamples});
  if (const std::string why = never_fits(request, status); !why.empty()) refuse(why);
  std::string lines;
  std::int64_t seen = 0;
  listen(hub, {.kinds = mask_of<TensorTapped>(), .tap = request}, [&](const RunEvent& event) {
    const auto& tensor = std::get<TensorTapped>(event.body);
    lines += line_of(event, tensor.summary, tensor.microbatch);
    return ++seen == kSamples;
  });
  if (lines.empty())
    throw Error(ErrorKind::unavailable, fmt::format("no tensor came in {} s", kPatience.count()));
  return describe(request) + "\n" + lines;
}

}  // namespace troupe::launch
