#include "launch/watch/run_watch.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

#include "launch/control/event_json.h"
#include "launch/run/json_fields.h"

namespace troupe::launch {
namespace {

using nlohmann::json;
using namespace actors;

void add_row(RunNow& now, const StepRow& row) {
  const auto step = static_cast<double>(row.step);
  now.loss.add({.x = step, .y = row.loss});
  now.speed.add({.x = step, .y = row.tokens_per_s()});
  now.newest = row;
}

void add_source(RunNow& now, const NamedLosses& more) {
  auto source = std::ranges::find(now.sources, more.name, &SourceNow::name);
  if (source == now.sources.end())
    source = now.sources.insert(source, {.name = more.name, .loss = {}});
  source->tokens += more.tokens;
  for (const Point& loss : more.losses) source->loss.add(loss);
}

/// Adds an entry to those of all kinds, and drops the oldest one of its kind if they are too many.
void add_limited(std::deque<TimelineEntry>& timeline, TimelineEntry entry, std::size_t most) {
  const std::string kind = entry.kind;
  timeline.push_back(std::move(entry));
  if (std::ranges::count(timeline, kind, &TimelineEntry::kind) > static_cast<std::ptrdiff_t>(most))
    timeline.erase(std::ranges::find(timeline, kind, &TimelineEntry::kind));
}

/// What tells an event from all others of a run.
std::pair<double, std::string> identity_of(const json& event) {
  return {number_of(event, "time"), text_of(event, "kind")};
}

bool is_routine(const std::string& kind) {
  constexpr std::array kRoutine{"director", "phase", "attached", "detached", "tensor"};
  return std::ranges::find(kRoutine, kind) != kRoutine.end();
}

}  // namespace

RunWatch::RunWatch(const WatchedRun& run) : peak_(run.peak), recorded_(run.past_step) {
  now_.name = run.name;
  now_.max_steps = run.max_steps;
  for (const StepRow& row : run.past_steps.steps) add_row(now_, row);
  for (const NamedLosses& source : run.past_steps.sources) add_source(now_, source);
  now_.evaluations = run.past_steps.evaluations;
  now_.routers = run.past_steps.routers;
  for (const json& event : run.past_events) {
    historian_.add(event);
    add_entry(event);
  }
  now_.sums = time_sums(run.past_steps, historian_.history());
  const std::size_t known = std::min(run.past_events.size(), kMostKnown);
  for (std::size_t i = run.past_events.size() - known; i < run.past_events.size(); ++i)
    past_.insert(identity_of(run.past_events[i]));
}

void RunWatch::begin(const RunStatus& status, double left_s) {
  const std::lock_guard lock(mutex_);
  now_.left_s = left_s;
  if (status.state == "starting") {
    now_.doing = status.state;
  } else if (status.state == "regrouping") {
    now_.doing = change_ = "changing";
  } else {
    now_.doing = status.catch_up ? "catching up" : "training";
    now_.mood = RunNow::Mood::working;
  }
  now_.catch_up = status.catch_up;
  if (status.catch_up) now_.at = status.step;
  historian_.know(status.hosts);
  add_members(status.configuration, status.ranks);
}

void RunWatch::end(const Outcome& outcome) {
  const std::lock_guard lock(mutex_);
  if (!now_.ended()) follow_state({.step = outcome.step, .body = RunEnded{.outcome = outcome}});
}

void RunWatch::miss() {
  const std::lock_guard lock(mutex_);
  gatherer_.leave_out_open_step();
}

void RunWatch::apply(const RunEvent& event) {
  const std::lock_guard lock(mutex_);
  if (const auto* part = std::get_if<ActionsTraced>(&event.body)) {
    if (const auto whole = gatherer_.add(event, *part))
      recorded_ = to_json(*whole, {now_.ranks.begin(), now_.ranks.end()});
    return;
  }
  if (const auto* activity = std::get_if<RankActivity>(&event.body))
    return add_activity(event.rank, *activity);
  const json fields = to_json(event);
  ends_change_ = !change_.empty();
  follow_state(event);
  if (const auto* step = std::get_if<StepCommitted>(&event.body))
    return add_step(step->report, fields);
  if (const auto* again = std::get_if<StepAgain>(&event.body)) {
    // The curves have the step already, and its time is that of the recovery.
    now_.newest = take_up(again->report, fields);
    return;
  }
  if (const auto* membership = std::get_if<MembershipChanged>(&event.body))
    add_members(event.configuration, membership->ranks);
  if (past_.contains(identity_of(fields))) return;
  const auto* evaluation = std::get_if<EvaluationDone>(&event.body);
  const bool is_new = now_.evaluations.empty() || now_.evaluations.back().step < event.step;
  if (evaluation && is_new)
    now_.evaluations.push_back(
        {.step = event.step, .loss = evaluation->loss, .sets = evaluation->sets});
  if (!std::holds_alternative<DirectorActivity>(event.body)) historian_.add(fields);
  add_entry(fields);
}

void RunWatch::add_entry(const json& event) {
  TimelineEntry entry = entry_of(event);
  if (is_routine(entry.kind))
    add_limited(now_.routine, std::move(entry), kMostRoutine);
  else
    add_limited(now_.timeline, std::move(entry), kMostTimelineEntries);
}

void RunWatch::add_step(const StepReport& report, const json& event) {
  const StepRow row = take_up(report, event);
  add_row(now_, row);
  for (const StepReport::SourceLoss& source : report.sources)
    add_source(now_, {.name = source.name,
                      .losses = {{.x = static_cast<double>(row.step), .y = source.loss}},
                      .tokens = static_cast<double>(source.tokens)});
  if (!ends_change_) now_.sums.add(row);  // else the time is that of the change
}

/// Shows what the ranks did in a step.
StepRow RunWatch::take_up(const StepReport& report, const json& event) {
  StepRow row = step_row(event);
  now_.at.reset();
  const auto stages = report.stages();
  if (const auto mfu = peak_.utilization(report, static_cast<double>(stages.size())))
    row.mfu = *mfu;
  step_times_.add(report.step_s);
  now_.left_s = step_times_.left_s(now_.max_steps - report.step);
  for (const auto& times : stages)
    for (RankNow& rank : now_.ranks)
      if (rank.replica == times.replica && rank.stage == times.stage && rank.shard == times.shard)
        rank.times = times;
  now_.edges = report.edges();
  now_.routers = report.routers;
  return row;
}

void RunWatch::add_activity(int number, const RankActivity& activity) {
  const auto rank = std::ranges::find(now_.ranks, number, &RankNow::rank);
  if (rank == now_.ranks.end()) return;
  rank->state = activity.state;
  rank->waiting_for = activity.waiting_for;
  rank->resident_bytes = activity.resident_bytes;
}

void RunWatch::add_members(std::uint32_t configuration, const std::vector<RankStatus>& ranks) {
  gatherer_.expect(configuration, ranks.size());
  step_times_.forget_earlier();
  now_.edges.clear();
  now_.ranks.clear();
  for (const RankStatus& member : ranks) {
    now_.ranks.push_back({member});
    if (member.state.empty()) now_.ranks.back().state = "starting";
  }
}

/// What the run does, told by what happened last.
void RunWatch::follow_state(const RunEvent& event) {
  const auto does = [&](const std::string& what, RunNow::Mood mood) {
    now_.doing = what;
    now_.mood = mood;
  };
  if (std::holds_alternative<FailureDetected>(event.body)) {
    change_ = "recovering";
    does(change_, RunNow::Mood::changing);
    if (const auto lost = std::ranges::find(now_.ranks, event.rank, &RankNow::rank);
        lost != now_.ranks.end()) {
      lost->state = "lost";
      lost->waiting_for.clear();
      lost->resident_bytes = 0;
      lost->times.busy_s = lost->times.idle_s = lost->times.collective_s = 0;
    }
  } else if (const auto* phase = std::get_if<PhaseBegun>(&event.body)) {
    if (change_.empty()) change_ = "changing";
    does(change_ + ": " + phase->phase, RunNow::Mood::changing);
  } else if (const auto* back = std::get_if<WentBack>(&event.body)) {
    now_.catch_up = back->way;
    now_.at = back->way.back_to;
  } else if (const auto* again = std::get_if<StepAgain>(&event.body)) {
    now_.catch_up = again->way;
    does("catching up", RunNow::Mood::working);
  } else if (std::holds_alternative<StepCommitted>(event.body)) {
    change_.clear();
    now_.catch_up.reset();
    does("training", RunNow::Mood::working);
  } else if (const auto* end = std::get_if<RunEnded>(&event.body)) {
    for (RankNow& rank : now_.ranks) {
      rank.state = "ended";
      rank.waiting_for.clear();
    }
    now_.catch_up.reset();
    does(end->outcome.reason,
         end->outcome.exit_code == 0 ? RunNow::Mood::ended : RunNow::Mood::failed);
  }
}

double RunWatch::step_s() const {
  const std::lock_guard lock(mutex_);
  return step_times_.left_s(1);
}

/// Of a single step it depends on whatever slowed an action, and the account of the whole run would
/// change with each.
std::optional<double> RunWatch::usual_bubble(const StepPicture& picture) {
  const auto bubble = bubble_of(picture);
  const std::lock_guard lock(mutex_);
  if (bubble && picture.step != bubble_step_) {
    bubble_step_ = picture.step;
    bubbles_.push_back(*bubble);
    if (bubbles_.size() > kMostBubbles) bubbles_.pop_front();
  }
  if (bubbles_.empty()) return std::nullopt;
  return std::accumulate(bubbles_.begin(), bubbles_.end(), 0.0) /
         static_cast<double>(bubbles_.size());
}

RunNow RunWatch::now(double time) {
  std::unique_lock lock(mutex_);
  RunNow now = now_;
  now.history = historian_.history();
  const json recorded = recorded_;
  lock.unlock();
  now.time = time;
  now.picture = step_picture(recorded);
  if (now.picture) now.bubble = usual_bubble(*now.picture);
  return now;
}

}  // namespace troupe::launch
