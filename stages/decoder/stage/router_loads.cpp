#include "stages/decoder/stage/router_loads.h"

#include <algorithm>

#include "stages/model/computation.h"

namespace troupe::stages {
namespace {

std::vector<RouterLoad> loads_of(const StageSpec& spec) {
  std::vector<RouterLoad> loads;
  if (!spec.training) return loads;
  const auto experts = static_cast<std::size_t>(spec.model.experts.count);
  for (const ChunkSpec& chunk : spec.chunks)
    for (int layer = chunk.first_layer; layer < chunk.end_layer; ++layer)
      if (is_routed(spec.model, layer))
        loads.push_back({.layer = layer, .load = std::vector<float>(experts)});
  return loads;
}

}  // namespace

std::size_t RouterLoads::bytes(const StageSpec& spec, std::int64_t size) {
  return loads_of(spec).size() * static_cast<std::size_t>(size) * sizeof(float);
}

RouterLoads::RouterLoads(const StageSpec& spec, std::int64_t size, tensor::Device& device)
    : size_(size),
      ops_(device.ops()),
      loads_(loads_of(spec)),
      memory_(loads_.empty() ? tensor::Buffer{}
                             : device.allocate(bytes(spec, size), tensor::MemoryKind::pinned)) {}

void RouterLoads::copy(tensor::Stream& stream, const tensor::Tensor& sums) {
  if (!sums) return;
  const std::size_t offset = static_cast<std::size_t>(read_) * sizeof(float);
  ops_.copy(stream, sums, memory_.view(tensor::DType::f32, sums.shape, offset));
  read_ += sums.num_elements();
}

void RouterLoads::take() {
  const auto* of_layer = static_cast<const float*>(memory_.data());
  for (RouterLoad& load : loads_) {
    std::copy_n(of_layer, load.load.size(), load.load.begin());
    of_layer += size_;
    load.entropy = of_layer[-3];
    load.z = of_layer[-2];
    load.balance = of_layer[-1];
  }
}

}  // namespace troupe::stages
