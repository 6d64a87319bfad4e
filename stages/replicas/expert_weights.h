#pragma once

#include <memory>

#include "stages/replicas/data_parallel.h"

namespace troupe::stages {

/// GradientGroups::experts twice more, if replicas that share experts out divide weights: those of
/// experts are gathered in them for forwards and for backwards, in an order of each. Null if this
/// replica alone holds its experts.
struct ExpertWeightGroups {
  tensor::ProcessGroup* forward = nullptr;
  tensor::ProcessGroup* backward = nullptr;
};

/// make_data_parallel() for replicas that have such groups.
std::unique_ptr<DataParallel> make_data_parallel(const DataParallelSpec& spec, Stage& stage,
                                                 const GradientGroups& groups,
                                                 const ExpertWeightGroups& experts,
                                                 tensor::Device& device);

}  // namespace troupe::stages
