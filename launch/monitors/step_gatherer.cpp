#include "launch/monitors/step_gatherer.h"

#include <algorithm>
#include <string>
#include <utility>

#include "actors/tuning/host_clocks.h"
#include "launch/control/event_json.h"

namespace troupe::launch {

nlohmann::json to_json(WholeStep step, const std::vector<actors::RankStatus>& ranks) {
  using nlohmann::json;
  std::map<int, actors::RankClock> clocks;
  for (const actors::RankStatus& rank : ranks)
    clocks[rank.rank] = {.host = rank.host, .measured = step.clocks[rank.rank]};
  const auto ahead = actors::clocks_ahead(actors::messages_between(step.ranks), clocks);
  double error_s = 0;
  for (const auto& [rank, clock] : ahead) {
    actors::set_back(step.ranks.at(rank), clock.seconds);
    error_s = std::max(error_s, clock.error_s);
  }
  json rows = json::array();
  for (const actors::RankStatus& rank : ranks)
    rows.push_back({{"rank", rank.rank},
                    {"replica", rank.replica},
                    {"stage", rank.stage},
                    {"shard", rank.shard},
                    {"actions", step.ranks.at(rank.rank)}});
  json out{{"step", step.step}, {"ranks", std::move(rows)}};
  if (error_s > 0) out["clock_error_s"] = error_s;
  return out;
}

void StepGatherer::expect(std::uint32_t configuration, std::size_t num_ranks) {
  configuration_ = configuration;
  num_ranks_ = num_ranks;
  step_ = {};
  complete_.clear();
}

std::optional<WholeStep> StepGatherer::add(const actors::RunEvent& event,
                                           const actors::ActionsTraced& part) {
  if (event.configuration != configuration_) return std::nullopt;
  if (left_out_ == kNextStep) left_out_ = event.step;
  if (event.step == left_out_) return std::nullopt;
  if (event.step != step_.step) {
    step_ = {.step = event.step, .ranks = {}, .clocks = {}};
    complete_.clear();
  }
  auto& actions = step_.ranks[event.rank];
  actions.insert(actions.end(), part.actions.begin(), part.actions.end());
  step_.clocks[event.rank] = part.clock;
  if (part.complete) complete_.insert(event.rank);
  if (num_ranks_ == 0 || complete_.size() < num_ranks_) return std::nullopt;
  complete_.clear();
  return std::exchange(step_, {});
}

}  // namespace troupe::launch
