#include <fmt/format.h>

#include <map>

#include "stages/checkpoint.h"
#include "stages/checkpoint/checkpoint_state.h"
#include "stages/checkpoint/region_writer.h"
#include "stages/checkpoint/stored_tensor.h"
#include "stages/storage/output_file.h"
#include "tensor/error.h"
#include "tensor/host_copies.h"

namespace troupe::stages {
namespace {

namespace fs = std::filesystem;

/// A file of a part: what all shards of the stage write, and what this one does.
struct PartFile {
  std::map<std::string, TensorLayout> tensors;
  std::vector<NamedRegion> regions;

  /// Adds a parameter to the tensor of this name, which may hold others too.
  void add(const std::string& name, const ParameterInfo& info, const Parameter& parameter,
           const tensor::Tensor& tensor, const std::vector<tensor::Region>& written_regions) {
    TensorLayout& layout = tensors[name];
    layout.name = name;
    layout.shape = stored_tensor(info).shape;
    layout.regions.insert(layout.regions.end(), written_regions.begin(), written_regions.end());
    TROUPE_ASSERT(tensor.dtype == tensor::DType::f32);
    TROUPE_ASSERT(tensor.num_elements() >= parameter.region.num_elements());
    const auto elements = static_cast<std::size_t>(parameter.region.num_elements());
    if (parameter.owned && elements > 0)
      regions.push_back({.tensor = name,
                         .region = stored_region(info, parameter.region),
                         .bytes = std::as_bytes(std::span(tensor.as<float>(), elements)),
                         .order = stored_order(info)});
  }

  void write(const fs::path& path, tensor::HostCopies& copies,
             std::atomic<std::uint64_t>* written) {
    std::vector<TensorLayout> layouts;
    for (auto& [name, layout] : tensors) layouts.push_back(std::move(layout));
    write_regions(path, SafetensorsLayout(std::move(layouts)), regions, copies, written);
  }
};

/// The regions of all shards that have elements, in the coordinates of the parameter's tensor. A
/// shard's part of the vocabulary may be padding.
std::vector<tensor::Region> written_regions(const ParameterInfo& info, const ModelConfig& model,
                                            int shards) {
  std::vector<tensor::Region> regions = owned_regions(info, model, shards);
  std::erase_if(regions, [](const tensor::Region& region) { return region.num_elements() == 0; });
  for (tensor::Region& region : regions) region = stored_region(info, region);
  return regions;
}

}  // namespace

void write_checkpoint_part(const fs::path& dir, const Stage& stage, const ModelConfig& model,
                           const CheckpointPart& part, std::atomic<std::uint64_t>* written) {
  TROUPE_ASSERT(part.part >= 0 && part.part < part.num_parts);
  std::error_code code;
  fs::create_directories(dir, code);
  if (code)
    throw Error(ErrorKind::internal,
                fmt::format("checkpoint {}: cannot create: {}", dir.string(), code.message()));
  const auto infos = parameters_by_name(model);
  PartFile weights, optimizer;
  for (const Parameter& parameter : stage.parameters()) {
    if (!parameter.owned_by_stage) continue;
    const ParameterInfo& info = infos.at(parameter.name);
    TROUPE_ASSERT(parameter.whole_shape == info.shape);
    TROUPE_ASSERT(parameter.region == region_of(info, model, part.sharding));
    const auto regions = written_regions(info, model, part.sharding.size);
    const std::string& name = info.stored.tensor;
    weights.add(name, info, parameter, parameter.weight, regions);
    optimizer.add(exp_avg_name(name), info, parameter, parameter.exp_avg, regions);
    optimizer.add(exp_avg_sq_name(name), info, parameter, parameter.exp_avg_sq, regions);
  }
  tensor::HostCopies copies(stage.stream_of(Pass::forward).device());
  weights.write(dir / weights_file(part.part, part.num_parts), copies, written);
  optimizer.write(dir / optimizer_file(part.part, part.num_parts), copies, written);
  sync_directory(dir);
}

}  // namespace troupe::stages
