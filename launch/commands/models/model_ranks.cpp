#include "launch/commands/models/model_ranks.h"

#include <algorithm>
#include <utility>

#include "launch/commands/models/inference.h"
#include "launch/host/machine.h"

namespace troupe::launch {
namespace {

using nlohmann::json;

/// Ranks take the machine's GPUs in turn, and share them if there are fewer.
int gpus_for(const RankSpec& spec) {
  if (spec.device != "cuda" || spec.part().ranks() == 1) return 1;
  return std::max(1, static_cast<int>(own_gpus().devices.size()));
}

}  // namespace

// --- one rank

OwnRank::OwnRank(const RankSpec& spec, actors::ModelRank* peers, std::vector<std::string> addresses)
    : spec_(spec),
      part_(spec.part()),
      peers_(peers),
      addresses_(std::move(addresses)),
      device_(device_for(spec.device, spec.threads, spec.gpu)) {}

OwnRank::~OwnRank() {
  if (peers_) peers_->leave();
}

stages::PartLinks OwnRank::join(const actors::StageMessages& messages) {
  if (!peers_) return {};
  peers_->join(part_, addresses_, *device_, messages);
  return {.shards = peers_->shards(), .stages = peers_->stages()};
}

const transport::MadeOneShot& OwnRank::one_shot() {
  if (!one_shot_) one_shot_ = peers_ ? &peers_->make_one_shot(*device_) : &none_;
  return *one_shot_;
}

// --- all ranks

stages::ModelPart leading_part(int pp, int tp) {
  return {.pp = pp, .tp = tp, .stage = pp - 1, .shard = 0};
}

std::optional<transport::UcxEnvironment> prepare_ranks(int ranks) {
  if (ranks == 1) return std::nullopt;
  return transport::prepare_ucx();
}

LeadingRank::LeadingRank(RankSpec spec, const std::optional<transport::UcxEnvironment>& ucx,
                         const std::string& command, const json& work) {
  const int gpus = gpus_for(spec), ranks = spec.pp * spec.tp,
            leader = leading_part(spec.pp, spec.tp).rank();
  std::vector<std::string> addresses(static_cast<std::size_t>(ranks));
  std::vector<int> others;
  for (int rank = 0; rank < ranks; ++rank)
    if (rank != leader) others.push_back(rank);
  if (!others.empty()) {
    processes_.emplace(others);
    peers_.emplace(*ucx);
    addresses[static_cast<std::size_t>(leader)] = peers_->address();
    for (std::size_t i = 0; i < others.size(); ++i)
      addresses[static_cast<std::size_t>(others[i])] =
          processes_->answer(i).at("address").get<std::string>();
  }
  for (std::size_t i = 0; i < others.size(); ++i) {
    spec.rank = others[i];
    spec.gpu = spec.rank % gpus;
    processes_->tell(
        i, {{"rank", spec}, {"addresses", addresses}, {"command", command}, {"work", work}});
  }
  spec.rank = leader;
  spec.gpu = spec.rank % gpus;
  own_.emplace(spec, peers_ ? &*peers_ : nullptr, std::move(addresses));
}

stages::PartLinks LeadingRank::join(const actors::StageMessages& messages) try {
  const stages::PartLinks links = own_->join(messages);
  if (processes_) processes_->watch([this](const std::string& why) { peers_->abort(why); });
  return links;
} catch (const Error& error) {
  rethrow_cause(error);
}

void LeadingRank::rethrow_cause(const Error& error) {
  if (processes_ && error.kind() == ErrorKind::unavailable)
    if (const auto loss = processes_->loss()) throw *loss;
  throw error;
}

}  // namespace troupe::launch
