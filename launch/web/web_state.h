#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "actors/monitors/event.h"
#include "launch/manifest/peak_rate.h"
#include "launch/monitors/step_gatherer.h"

namespace troupe::launch {

/// What the web page shows, updated by events. All functions are callable from any thread.
class WebState {
 public:
  static constexpr std::size_t kMaxLosses = 2000;
  /// Limit for each kind, so that no kind pushes out another.
  static constexpr std::size_t kMaxRecentEvents = 50;

  /// `run` is the run's name.
  WebState(std::string run, const PeakRate& peak) : run_(std::move(run)), peak_(peak) {}

  void apply(const actors::RunEvent& event);
  /// The page's data: {run, step: event, with mfu if it is known, membership: event, activities:
  /// [event], losses: [[step, loss]], events: [event, oldest first], timeline: {step, rows: [{rank,
  /// actions: [[name, begin_s, end_s, from, to]]}]}}.
  nlohmann::json snapshot() const;

 private:
  nlohmann::json recent_events() const;
  void add_actions(const actors::RunEvent& event, const actors::ActionsTraced& part);

  const std::string run_;
  const PeakRate peak_;
  mutable std::mutex mutex_;  // guards the members below
  nlohmann::json newest_step_ = nlohmann::json::object();
  nlohmann::json membership_ = nlohmann::json::object();
  std::map<int, nlohmann::json> activities_;  // newest activity of each rank
  std::deque<std::pair<std::int64_t, double>> losses_;
  struct RecentEvent {
    std::uint64_t sequence = 0;
    nlohmann::json event;
  };
  std::map<std::size_t, std::deque<RecentEvent>> recent_events_;  // newest events of each kind
  StepGatherer traced_;
  // Timeline of the newest step that all ranks have sent.
  nlohmann::json timeline_ = nlohmann::json::object();
};

}  // namespace troupe::launch
