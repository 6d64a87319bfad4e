#include "stages/replicas/data_parallel.h"

#include "stages/decoder/parameters/parameter_layout.h"
#include "stages/replicas/bucket_reduction.h"
#include "stages/replicas/slice_norms.h"
#include "stages/replicas/stage_replicas.h"

namespace troupe::stages {

std::unique_ptr<DataParallel> make_data_parallel(const DataParallelSpec& spec, Stage& stage,
                                                 const GradientGroups& groups,
                                                 tensor::Device& device) {
  return std::make_unique<StageReplicas>(spec, stage, groups, device);
}

std::int64_t data_parallel_bytes(const DataParallelSpec& spec, const StageSpec& stage,
                                 int replicas) {
  const std::int64_t of_norms =
      stage.state.count > 1 ? SliceNorms::bytes(lay_out_parameters(stage).pieces.size()) : 0;
  return BucketReduction::bytes(spec, stage, replicas) + of_norms;
}

}  // namespace troupe::stages
