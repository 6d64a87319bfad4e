#include "launch/monitors/monitor_actor.h"

#include <caf/allowed_unsafe_message_type.hpp>
#include <chrono>
#include <utility>

namespace troupe::launch {
namespace {

struct Look {};
/// The interval at which a run sends its events.
constexpr std::chrono::milliseconds kInterval{50};

}  // namespace
}  // namespace troupe::launch

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::launch::Look)

namespace troupe::launch {

MonitorActor::MonitorActor(caf::actor_config& config, std::unique_ptr<Attachment> run)
    : caf::event_based_actor(config), run_(std::move(run)) {}

caf::behavior MonitorActor::make_behavior() {
  send(this, Look{});
  return {[this](Look) { look(); }};
}

void MonitorActor::look() {
  const Attachment::News news = run_->take();
  if (news.dropped > 0) on_dropped(news.dropped);
  for (const nlohmann::json& event : news.events) on_event(event);
  if (!news.ended) return delayed_send(this, kInterval, Look{});
  on_end(*news.ended);
  quit();
}

}  // namespace troupe::launch
