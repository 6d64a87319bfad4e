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

  /// Adds a parameter, which some shards and replicas write by these regions, to the tensor of this
  /// name, which may hold others too.
  void add(const std::string& name, const ParameterInfo& info,
           const std::vector<tensor::Region>& written_regions) {
    TensorLayout& layout = tensors[name];
    layout.name = name;
    layout.shape = stored_tensor(info).shape;
    layout.regions.insert(layout.regions.end(), written_regions.begin(), written_regions.end());
  }

  /// Adds what this replica writes of it. `kept` has its elements, and maybe padding after them.
  void add(const std::string& name, const ParameterInfo& info, const Parameter& parameter,
           const tensor::Tensor& kept) {
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
                                            const Sharding& sharding, const Parameter& parameter) {
  std::vector<tensor::Region> regions;
  for (const tensor::Region& region : owned_regions(info, model, sharding))
    for (int replica = 0; replica < parameter.num_slices(); ++replica) {
      const tensor::Region kept = cut_region(region, parameter.row_cuts, replica);
      if (kept.num_elements() > 0)
        std::ranges::copy(stored_regions(info, kept), std::back_inserter(regions));
    }
  return regions;
}

/// The numbers of the parameters that have this one's place on the replicas that share experts out
/// (Sharding::ep), itself among them; of any other parameter itself alone.
std::vector<std::size_t> in_place_of(std::size_t number, std::span<const ParameterInfo> all,
                                     const ModelConfig& model, int ep) {
  const ParameterInfo& info = all[number];
  if (info.expert < 0 || ep == 1) return {number};
  const auto of_expert = std::ranges::count_if(all, [&](const ParameterInfo& other) {
    return other.layer == info.layer && other.field == info.field && other.expert == info.expert;
  });
  const std::int64_t held = model.experts.count / ep;
  const std::size_t step = static_cast<std::size_t>(held * of_expert);
  std::vector<std::size_t> numbers;
  for (std::size_t i = number - static_cast<std::size_t>(info.expert / held) * step;
       numbers.size() < static_cast<std::size_t>(ep); i += step)
    numbers.push_back(i);
  return numbers;
}

}  // namespace

void write_checkpoint_part(const fs::path& dir, const Stage& stage, const ModelConfig& model,
                           const CheckpointPart& part, std::atomic<std::uint64_t>* written) {
  TROUPE_ASSERT(part.part >= 0 && part.part < part.num_parts);
  std::error_code code;
  fs::create_directories(dir, code);
  refuse_if(code, fmt::format("checkpoint {}: cannot create", dir.string()));
  const std::vector<ParameterInfo> all = parameters_of(model);
  auto next = all.begin();  // both are in canonical order
  PartFile weights, optimizer;
  for (const Parameter& parameter : stage.parameters()) {
    if (!parameter.owned_by_stage) continue;
    next = std::ranges::find(next, all.end(), parameter.name, &ParameterInfo::name);
    TROUPE_ASSERT(next != all.end());
    const auto number = static_cast<std::size_t>(next - all.begin());
    const ParameterInfo& info = *next;
    if (model.adapter && !is_adapter(info)) continue;
    TROUPE_ASSERT(parameter.whole_shape == info.shape);
    TROUPE_ASSERT(parameter.region == region_of(info, model, part.sharding));
    for (const std::size_t i : in_place_of(number, all, model, part.sharding.ep)) {
      const auto regions = written_regions(all[i], model, part.sharding, parameter);
      const std::string& name = all[i].stored.tensor;
      weights.add(name, all[i], regions);
      if (all[i].update.frozen) continue;
      optimizer.add(exp_avg_name(name), all[i], regions);
      optimizer.add(exp_avg_sq_name(name), all[i], regions);
    }
    // Of several replicas that keep all but experts alike the first writes.
    const bool is_first = part.sharding.ep_member == 0 || !stage.buckets().empty();
    if (!is_first && !parameter.is_expert) continue;
    const std::string& name = info.stored.tensor;
    weights.add(name, info, parameter, parameter.kept_weight);
    if (info.update.frozen) continue;
    optimizer.add(exp_avg_name(name), info, parameter, parameter.exp_avg);
    optimizer.add(exp_avg_sq_name(name), info, parameter, parameter.exp_avg_sq);
  }
  tensor::HostCopies copies(stage.stream_of(Pass::forward).device());
  const auto weights_name = model.adapter ? adapter_part_file : weights_file;
  weights.write(dir / weights_name(part.part, part.num_parts), copies, written);
  optimizer.write(dir / optimizer_file(part.part, part.num_parts), copies, written);
  sync_directory(dir);
}

}  // namespace troupe::stages
