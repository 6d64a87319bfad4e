#include "launch/web/web_state.h"

#include <string>
#include <utility>

#include "launch/control/event_json.h"

namespace troupe::launch {

using nlohmann::json;
using namespace actors;

void WebState::apply(const RunEvent& event) {
  const std::lock_guard lock(mutex_);
  if (const auto* actions = std::get_if<ActionsTraced>(&event.body))
    return add_actions(event, *actions);
  json row = to_json(event);
  if (const auto* step = std::get_if<StepCommitted>(&event.body)) {
    losses_.emplace_back(step->report.step, step->report.loss);
    if (losses_.size() > kMaxLosses) losses_.pop_front();
    if (const auto mfu =
            peak_.utilization(step->report, static_cast<double>(step->report.stages().size())))
      row["mfu"] = *mfu;
    newest_step_ = std::move(row);
    return;
  }
  if (std::holds_alternative<RankActivity>(event.body)) {
    activities_[event.rank] = std::move(row);
    return;
  }
  if (const auto* membership = std::get_if<MembershipChanged>(&event.body)) {
    membership_ = row;
    activities_.clear();
    traced_.expect(event.epoch, membership->ranks.size());
  }
  auto& recent_events = recent_events_[event.body.index()];
  recent_events.push_back({.sequence = event.sequence, .event = std::move(row)});
  if (recent_events.size() > kMaxRecentEvents) recent_events.pop_front();
}

json WebState::recent_events() const {
  std::map<std::uint64_t, const json*> in_order;
  for (const auto& [kind, recent_events] : recent_events_)
    for (const auto& [sequence, event] : recent_events) in_order[sequence] = &event;
  json all = json::array();
  for (const auto& [sequence, event] : in_order) all.push_back(*event);
  return all;
}

/// Adds actions of a rank. A step's timeline is shown when all ranks' actions have arrived.
void WebState::add_actions(const RunEvent& event, const ActionsTraced& part) {
  const auto whole = traced_.add(event, part);
  if (!whole) return;
  timeline_ = {{"step", whole->step}, {"rows", json::array()}};
  for (const auto& [rank, actions] : whole->ranks) {
    json row{{"rank", rank}, {"actions", json::array()}};
    for (const auto& a : actions)
      row["actions"].push_back({a.name, a.begin_s, a.end_s, a.from, a.to});
    timeline_["rows"].push_back(std::move(row));
  }
}

json WebState::snapshot() const {
  const std::lock_guard lock(mutex_);
  json losses = json::array();
  for (const auto& [step, loss] : losses_) losses.push_back({step, loss});
  json activities = json::array();
  for (const auto& [rank, row] : activities_) activities.push_back(row);
  return {{"run", run_},
          {"step", newest_step_},
          {"membership", membership_},
          {"activities", activities},
          {"losses", std::move(losses)},
          {"events", recent_events()},
          {"timeline", timeline_}};
}

}  // namespace troupe::launch
