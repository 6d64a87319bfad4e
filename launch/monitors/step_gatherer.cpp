#include "launch/monitors/step_gatherer.h"

#include <string>
#include <utility>

#include "actors/tuning/host_clocks.h"
#include "launch/control/event_json.h"

namespace troupe::launch {

nlohmann::json to_json(WholeStep step, const std::vector<actors::RankStatus>& ranks) {
  using nlohmann::json;
  std::map<int, std::string> hosts;
  for (const actors::RankStatus& rank : ranks) hosts[rank.rank] = rank.host;
  const auto ahead = actors::clocks_ahead(actors::messages_between(step.ranks), hosts);
  for (const auto& [rank, clock] : ahead) actors::set_back(step.ranks.at(rank), clock.seconds);
  json rows = json::array();
  for (const actors::RankStatus& rank : ranks)
    rows.push_back({{"rank", rank.rank},
                    {"replica", rank.replica},
                    {"stage", rank.stage},
                    {"shard", rank.shard},
                    {"actions", step.ranks.at(rank.rank)}});
  return {{"step", step.step}, {"ranks", std::move(rows)}};
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
    step_ = {.step = event.step, .ranks = {}};
    complete_.clear();
  }
  auto& actions = step_.ranks[event.rank];
  actions.insert(actions.end(), part.actions.begin(), part.actions.end());
  if (part.complete) complete_.insert(event.rank);
  if (num_ranks_ == 0 || complete_.size() < num_ranks_) return std::nullopt;
  complete_.clear();
  return std::exchange(step_, {});
}

}  // namespace troupe::launch
