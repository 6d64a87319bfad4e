#include <fmt/format.h>

#include <map>

#include "stages/checkpoint.h"
#include "stages/checkpoint/checkpoint_state.h"
#include "stages/checkpoint/region_writer.h"
#include "stages/storage/output_file.h"
#include "tensor/error.h"

namespace troupe::stages {
namespace {

namespace fs = std::filesystem;

/// A file of a part: what all shards of the stage write, and what this one does.
struct PartFile {
  std::vector<TensorLayout> tensors;
  std::vector<NamedRegion> regions;

  void add(const std::string& name, const Parameter& parameter, const tensor::Tensor& tensor,
           const std::vector<tensor::Region>& owned_regions) {
    tensors.push_back({.name = name, .shape = parameter.whole_shape, .regions = owned_regions});
    TROUPE_ASSERT(tensor.dtype == tensor::DType::f32);
    TROUPE_ASSERT(tensor.num_elements() >= parameter.region.num_elements());
    const auto elements = static_cast<std::size_t>(parameter.region.num_elements());
    if (parameter.owned && elements > 0)
      regions.push_back({.tensor = name,
                         .region = parameter.region,
                         .bytes = std::as_bytes(std::span(tensor.as<float>(), elements))});
  }

  void write(const fs::path& path, std::atomic<std::uint64_t>* written) {
    write_regions(path, SafetensorsLayout(std::move(tensors)), regions, written);
  }
};

/// The regions of all shards that have elements. A shard's part of the vocabulary may be padding.
std::vector<tensor::Region> written_regions(const ParameterInfo& info, const ModelConfig& model,
                                            int shards) {
  std::vector<tensor::Region> regions = owned_regions(info, model, shards);
  std::erase_if(regions, [](const tensor::Region& region) { return region.num_elements() == 0; });
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
  std::map<std::string, ParameterInfo> infos;
  for (ParameterInfo& info : parameters_of(model)) infos.emplace(info.name, std::move(info));
  PartFile weights, optimizer;
  for (const Parameter& parameter : stage.parameters()) {
    if (!parameter.owned_by_stage) continue;
    const ParameterInfo& info = infos.at(parameter.name);
    TROUPE_ASSERT(parameter.whole_shape == info.shape);
    TROUPE_ASSERT(parameter.region == region_of(info, model, part.sharding));
    const auto regions = written_regions(info, model, part.sharding.size);
    weights.add(info.name, parameter, parameter.weight, regions);
    optimizer.add(exp_avg_name(info.name), parameter, parameter.exp_avg, regions);
    optimizer.add(exp_avg_sq_name(info.name), parameter, parameter.exp_avg_sq, regions);
  }
  weights.write(dir / weights_file(part.part, part.num_parts), written);
  optimizer.write(dir / optimizer_file(part.part, part.num_parts), written);
  sync_directory(dir);
}

}  // namespace troupe::stages
