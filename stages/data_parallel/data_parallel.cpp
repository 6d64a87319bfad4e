#include "stages/data_parallel/data_parallel.h"

#include <utility>

#include "stages/data_parallel/replicated.h"
#include "stages/data_parallel/sharded_optimizer.h"

namespace troupe::stages {

std::unique_ptr<DataParallel> make_data_parallel(const DataParallelSpec& spec, Stage& stage,
                                                 GradientGroups groups, tensor::Device& device) {
  if (spec.division == StateDivision::none || !groups.replicas.group)
    return std::make_unique<Replicated>(spec, stage, std::move(groups), device);
  return std::make_unique<ShardedOptimizer>(spec, stage, std::move(groups), device);
}

std::int64_t data_parallel_bytes(const DataParallelSpec& spec, const StageSpec& stage,
                                 int replicas) {
  const bool is_divided = spec.division != StateDivision::none && replicas > 1;
  return is_divided ? ShardedOptimizer::bytes(spec, stage, replicas)
                    : BucketReduction::bytes(spec, stage, replicas);
}

}  // namespace troupe::stages
