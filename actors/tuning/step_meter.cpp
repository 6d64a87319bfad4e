#include "actors/tuning/step_meter.h"

#include <algorithm>
#include <utility>

#include "actors/messages/message_checks.h"

namespace troupe::actors {
namespace {

using schedules::Op;
using Row = ActionsTraced::Action;

constexpr std::array kKinds{Op::F, Op::B, Op::I, Op::W};
static_assert(kKinds.size() == ActionTimes::kOps);

std::size_t index_of(Op op) {
  return static_cast<std::size_t>(std::ranges::find(kKinds, op) - kKinds.begin());
}

/// Adds the travel times of those messages of a step that a rank waited for. Clocks are compared in
/// each step anew, because they drift.
void add_travel_times(std::vector<double>& times, const TracedRanks& ranks,
                      const std::map<int, RankClock>& clocks) {
  const auto messages = messages_between(ranks);
  const auto ahead = clocks_ahead(messages, clocks);
  for (const TracedMessage& message : messages) {
    const auto from = ahead.find(message.from), to = ahead.find(message.to);
    if (from == ahead.end() || to == ahead.end()) continue;
    const double sent_s = message.sent_s + (to->second.seconds - from->second.seconds);
    if (message.wanted_s <= sent_s) times.push_back(std::max(0.0, message.came_s - sent_s));
  }
}

}  // namespace

double& ActionTimes::of(Op op) {
  return seconds[index_of(op)];
}
double ActionTimes::of(Op op) const {
  return seconds[index_of(op)];
}
double& ActionTimes::collective_of(Op op) {
  return seconds[kOps + index_of(op)];
}
double ActionTimes::collective_of(Op op) const {
  return seconds[kOps + index_of(op)];
}

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

StepMeter::StepMeter(const ClusterShape& shape, std::map<int, std::string> hosts)
    : shape_(shape), hosts_(std::move(hosts)) {
  for (int rank = 0; rank < shape_.num_ranks(); ++rank) hosts_[rank];
}

void StepMeter::add(const TracedActions& actions) {
  if (whole_steps().size() >= kTraced) return;
  const int num_chunks = static_cast<int>(shape_.layout.chunks.size());
  if (!fault_in(actions, shape_.num_ranks(), num_chunks).empty()) return;
  Step& step = steps_[actions.step];
  auto& rows = step.rows[actions.rank];
  rows.insert(rows.end(), actions.body.actions.begin(), actions.body.actions.end());
  step.clocks[actions.rank] = {.host = hosts_.at(actions.rank), .measured = actions.body.clock};
  if (actions.body.complete) step.complete.insert(actions.rank);
}

void StepMeter::add(std::int64_t step, double seconds) {
  steps_[step].seconds = seconds;
}

std::vector<const StepMeter::Step*> StepMeter::whole_steps() const {
  std::vector<const Step*> whole;
  for (const auto& [number, step] : steps_)
    if (number != steps_.begin()->first && step.seconds &&
        static_cast<int>(step.complete.size()) == shape_.num_ranks())
      whole.push_back(&step);
  return whole;
}

std::vector<double> StepMeter::times() const {
  std::vector<double> times;
  for (const auto& [number, step] : steps_)
    if (number != steps_.begin()->first && step.seconds) times.push_back(*step.seconds);
  return times;
}

std::optional<Measured> StepMeter::result() const {
  const auto whole = whole_steps();
  if (whole.size() < kTraced || times().size() < kSteps) return std::nullopt;
  const std::size_t chunks = shape_.layout.chunks.size();
  std::vector<std::array<std::vector<double>, 2 * ActionTimes::kOps>> actions(chunks);
  std::vector<double> hops;
  for (const Step* step : whole) {
    for (const auto& [rank, rows] : step->rows)
      for (const Row& row : rows)
        if (const auto action = schedules::parse_action(row.name)) {
          auto& times = actions[static_cast<std::size_t>(action->chunk)];
          times[index_of(action->op)].push_back(row.busy_s);
          times[ActionTimes::kOps + index_of(action->op)].push_back(row.collective_s);
        }
    add_travel_times(hops, step->rows, step->clocks);
  }
  Measured out{.chunks = std::vector<ActionTimes>(chunks),
               .hop_s = median(hops),
               .step_s = median(times()),
               .steps = times(),
               .first_step = std::next(steps_.begin())->first,
               .last_step = steps_.rbegin()->first};
  for (std::size_t chunk = 0; chunk < chunks; ++chunk)
    for (std::size_t i = 0; i < actions[chunk].size(); ++i)
      out.chunks[chunk].seconds[i] = median(actions[chunk][i]);
  return out;
}

}  // namespace troupe::actors
