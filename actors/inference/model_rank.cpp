#include "actors/inference/model_rank.h"

#include <utility>
#include <vector>

#include "tensor/errors/error.h"
#include "transport/collectives/changing_group.h"

namespace troupe::actors {

ModelRank::ModelRank(const transport::UcxEnvironment& ucx)
    : node_(transport::UcxNode::create({.environment = ucx})) {}

ModelRank::~ModelRank() = default;

void ModelRank::join(const stages::ModelPart& part, std::span<const std::string> addresses,
                     tensor::Device& device, const StageMessages& messages) {
  TROUPE_ASSERT(static_cast<int>(addresses.size()) == part.ranks());
  for (int rank = 0; rank < part.ranks(); ++rank)
    if (rank != part.rank()) node_->connect(rank, 1, addresses[static_cast<std::size_t>(rank)]);
  if (part.tp > 1) {
    const std::string name = "shards of stage " + std::to_string(part.stage);
    std::vector<int> ranks;
    for (int shard = 0; shard < part.tp; ++shard) ranks.push_back(part.stage * part.tp + shard);
    auto hosts = node_->make_group(1, 1, part.stage, name, ranks, part.rank());
    hosts_ = hosts.get();
    shards_ = transport::group_for(device, std::move(hosts), name);
  }
  if (part.pp > 1) edges_.emplace(node_->channel(), device, part, messages);
}

const transport::MadeOneShot& ModelRank::make_one_shot(tensor::Device& device) {
  if (!hosts_) return one_shot_;
  auto made = transport::make_one_shot(device, *hosts_);
  const std::lock_guard lock(mutex_);
  one_shot_ = std::move(made);
  if (one_shot_.norm && !reason_.empty()) one_shot_.norm->abort(reason_);
  return one_shot_;
}

void ModelRank::leave() {
  one_shot_.norm.reset();
  edges_.reset();
  shards_.reset();
  node_.reset();  // its channel may have memory of the device
}

void ModelRank::abort(const std::string& reason) {
  if (shards_) shards_->abort(reason);
  {
    const std::lock_guard lock(mutex_);
    reason_ = reason;
    if (one_shot_.norm) one_shot_.norm->abort(reason);
  }
  node_->channel().close(reason);
}

}  // namespace troupe::actors
