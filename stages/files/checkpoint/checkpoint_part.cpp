#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <span>

#include "stages/files/checkpoint/checkpoint.h"
#include "stages/files/checkpoint/checkpoint_state.h"
#include "stages/files/checkpoint/room.h"
#include "stages/files/safetensors/region_writer.h"
#include "stages/files/safetensors/stored_tensor.h"
#include "stages/storage/output_file.h"
#include "tensor/device/host_copies.h"
#include "tensor/errors/error.h"

namespace troupe::stages {
namespace {

namespace fs = std::filesystem;

/// A file of a part: what all shards of the stage write, and what this one does.
struct PartFile {
  std::map<std::string, TensorLayout> tensors;
  std::vector<NamedRegion> regions;

  /// Adds what this replica keeps of a parameter to the tensor of this name, which may hold others
  /// too. `kept` has its elements, and maybe padding after them.
  void add(const std::string& name, const ParameterInfo& info, const Parameter& parameter,
           const tensor::Tensor& kept, const std::vector<tensor::Region>& written_regions) {
    TensorLayout& layout = tensors[name];
    layout.name = name;
    layout.shape = stored_tensor(info).shape;
    layout.regions.insert(layout.regions.end(), written_regions.begin(), written_regions.end());
    const tensor::Region region = parameter.region_of(parameter.slice);
    const auto elements = static_cast<std::size_t>(region.num_elements());
    if (!parameter.owned || elements == 0) return;
    TROUPE_ASSERT(kept.dtype == tensor::DType::f32);
    TROUPE_ASSERT(kept.num_elements() >= region.num_elements());
    std::span<const float> rest(kept.as<float>(), elements);
    for (const tensor::Region& piece : stored_regions(info, region)) {
      const auto count = static_cast<std::size_t>(piece.num_elements());
      regions.push_back({.tensor = name,
                         .region = piece,
                         .bytes = std::as_bytes(rest.first(count)),
                         .order = stored_order(info)});
      rest = rest.subspan(count);
    }
  }

  /// Counts in `written` what the attempt that succeeds has written.
  void write(const fs::path& path, tensor::HostCopies& copies,
             std::atomic<std::uint64_t>* written) {
    std::vector<TensorLayout> layouts;
    for (auto& [name, layout] : tensors) layouts.push_back(std::move(layout));
    const SafetensorsLayout layout(std::move(layouts));
    const std::uint64_t before = written ? written->load() : 0;
    const fs::path dir = path.parent_path();
    note_removed(dir, write_with_room(dir.parent_path(), [&] {
                   if (written) *written = before;
                   write_regions(path, layout, regions, copies, written);
                 }));
  }
};

/// What each replica of each shard keeps of a parameter, in the coordinates of its tensor. Shards
/// have tensors of one shape, and so cut them at the same rows. A part of the vocabulary may be
/// padding.
std::vector<tensor::Region> written_regions(const ParameterInfo& info, const ModelConfig& model,
                                            int shards, const Parameter& parameter) {
  std::vector<tensor::Region> regions;
  for (const tensor::Region& region : owned_regions(info, model, shards))
    for (int replica = 0; replica < parameter.num_slices(); ++replica) {
      const tensor::Region kept = cut_region(region, parameter.row_cuts, replica);
      if (kept.num_elements() > 0)
        std::ranges::copy(stored_regions(info, kept), std::back_inserter(regions));
    }
  return regions;
}

}  // namespace

void write_checkpoint_part(const fs::path& dir, const Stage& stage, const ModelConfig& model,
                           const CheckpointPart& part, std::atomic<std::uint64_t>* written) {
  TROUPE_ASSERT(part.part >= 0 && part.part < part.num_parts);
  std::error_code code;
  fs::create_directories(dir, code);
  refuse_if(code, fmt::format("checkpoint {}: cannot create", dir.string()));
  const auto infos = parameters_by_name(model);
  PartFile weights, optimizer;
  for (const Parameter& parameter : stage.parameters()) {
    if (!parameter.owned_by_stage) continue;
    const ParameterInfo& info = infos.at(parameter.name);
    TROUPE_ASSERT(parameter.whole_shape == info.shape);
    TROUPE_ASSERT(parameter.region == region_of(info, model, part.sharding));
    const auto regions = written_regions(info, model, part.sharding.size, parameter);
    const std::string& name = info.stored.tensor;
    weights.add(name, info, parameter, parameter.kept_weight, regions);
    if (info.update.frozen) continue;
    optimizer.add(exp_avg_name(name), info, parameter, parameter.exp_avg, regions);
    optimizer.add(exp_avg_sq_name(name), info, parameter, parameter.exp_avg_sq, regions);
  }
  tensor::HostCopies copies(stage.stream_of(Pass::forward).device());
  weights.write(dir / weights_file(part.part, part.num_parts), copies, written);
  optimizer.write(dir / optimizer_file(part.part, part.num_parts), copies, written);
  sync_directory(dir);
}

}  // namespace troupe::stages
