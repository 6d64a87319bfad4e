#include "stages/model/sharding.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "tensor/errors/error.h"
#include "tensor/parallel/division.h"

namespace troupe::stages {

using tensor::Region;

namespace {

/// Part `index` of `parts` equal parts along one dim, of which `begin` and `size` are the members.
Region part_of(Region all, std::int64_t Region::*begin, std::int64_t Region::*size,
               std::int64_t parts, std::int64_t index) {
  TROUPE_ASSERT(all.*size % parts == 0);
  all.*size /= parts;
  all.*begin = index * all.*size;
  return all;
}

Region vocab_of(const Region& all, int shards, int shard) {
  Region part = all;
  part.row = std::min(all.rows, shard * vocab_rows(all.rows, shards));
  part.rows = std::min(all.rows - part.row, vocab_rows(all.rows, shards));
  return part;
}

/// A rule that a number of shards breaks.
struct Broken {
  const char* field;
  std::int64_t size;
  const char* rule;
};

std::optional<Broken> broken_rule(const ModelConfig& model, int shards, bool whole_experts) {
  const std::int64_t kv_heads = model.num_key_value_heads;
  if (model.num_attention_heads % shards != 0)
    return Broken{"num_attention_heads", model.num_attention_heads, "must be divisible by tp"};
  if (kv_heads % shards != 0 && shards % kv_heads != 0)
    return Broken{"num_key_value_heads", kv_heads, "must divide, or be divisible by, tp"};
  if (model.intermediate_size % shards != 0)
    return Broken{"intermediate_size", model.intermediate_size, "must be divisible by tp"};
  if (model.experts.count > 0 && !whole_experts && model.experts.width % shards != 0)
    return Broken{"moe_intermediate_size", model.experts.width, "must be divisible by tp"};
  return std::nullopt;
}

/// The number of shards nearest to `wrong`, below it if there is one, that can divide the model.
int nearest_sharding(const ModelConfig& model, int wrong, bool whole_experts) {
  int shards = wrong - 1;
  while (shards > 1 && broken_rule(model, shards, whole_experts)) --shards;
  return std::max(1, shards);
}

/// How the shards divide the parameter.
Split split_of(const ParameterInfo& info, const Sharding& sharding) {
  return info.expert >= 0 && sharding.whole_experts ? Split::none : info.split;
}

}  // namespace

bool holds_expert(const ParameterInfo& info, const ModelConfig& model, const Sharding& sharding) {
  return info.expert < 0 || sharding.ep == 1 ||
         info.expert / (model.experts.count / sharding.ep) == sharding.ep_member;
}

int shards_per_kv_head(const ModelConfig& model, int shards) {
  return std::max(1, shards / static_cast<int>(model.num_key_value_heads));
}

std::int64_t vocab_rows(std::int64_t vocab_size, int shards) {
  return tensor::padded_vocab(vocab_size, shards) / shards;
}

Region region_of(const ParameterInfo& info, const ModelConfig& model, const Sharding& sharding) {
  if (!holds_expert(info, model, sharding)) return {};
  const Region all = tensor::whole(info.shape);
  const auto [size, shard] = std::pair(sharding.size, sharding.shard);
  switch (split_of(info, sharding)) {
    case Split::none:
    case Split::heads:
      return all;
    case Split::rows:
      return part_of(all, &Region::row, &Region::rows, size, shard);
    case Split::columns:
      return part_of(all, &Region::column, &Region::columns, size, shard);
    case Split::kv_rows: {
      const int sharing = shards_per_kv_head(model, size);
      return part_of(all, &Region::row, &Region::rows, size / sharing, shard / sharing);
    }
    case Split::vocab_rows:
      return vocab_of(all, size, shard);
  }
  assert_failed("split is a Split", __FILE__, __LINE__);
}

bool owns_region(const ParameterInfo& info, const ModelConfig& model, const Sharding& sharding) {
  const Split split = split_of(info, sharding);
  if (split == Split::none || split == Split::heads) return sharding.shard == 0;
  if (split != Split::kv_rows) return true;
  return sharding.shard % shards_per_kv_head(model, sharding.size) == 0;
}

bool sums_gradient(const ParameterInfo& info, const Sharding& sharding) {
  if (sharding.size == 1) return false;
  const Split split = split_of(info, sharding);
  return split == Split::heads || (split == Split::none && sharding.sequence_parallel);
}

bool sums_gradients(const ModelConfig& model, const Sharding& sharding) {
  return sharding.size > 1 &&
         (sharding.sequence_parallel || model.adapter || model.experts.count > 0 ||
          traits_of(model.kind).head_norm == HeadNorm::each_head);
}

Region moved_region(const ParameterInfo& info, const ModelConfig& model, const Sharding& from,
                    const Sharding& to) {
  if (from.size == to.size && from.shard != to.shard) return {};
  if (from.size != to.size && !owns_region(info, model, from)) return {};
  return intersection(region_of(info, model, from), region_of(info, model, to));
}

std::vector<Region> owned_regions(const ParameterInfo& info, const ModelConfig& model,
                                  const Sharding& sharding) {
  std::vector<Region> regions;
  Sharding each{.size = sharding.size, .whole_experts = sharding.whole_experts};
  for (; each.shard < each.size; ++each.shard)
    if (owns_region(info, model, each)) regions.push_back(region_of(info, model, each));
  return regions;
}

tensor::Shape local_shape(const ParameterInfo& info, const ModelConfig& model,
                          const Sharding& sharding) {
  const Region region = region_of(info, model, sharding);
  if (info.shape.rank() < 2) return {region.rows};
  const bool padded = info.split == Split::vocab_rows;
  return {padded ? vocab_rows(info.shape[0], sharding.size) : region.rows, region.columns};
}

bool gathers_edges(const Sharding& sharding) {
  return sharding.size > 1 && !sharding.sequence_parallel;
}

tensor::Shape edge_shape(std::int64_t tokens, std::int64_t hidden_size, const Sharding& sharding) {
  if (sharding.size == 1) return {tokens, hidden_size};
  if (sharding.sequence_parallel) return {tokens / sharding.size, hidden_size};
  return {tokens * hidden_size / sharding.size};
}

std::string check_sharding(const ModelConfig& model, int shards, bool whole_experts) {
  const auto broken = broken_rule(model, shards, whole_experts);
  if (!broken) return {};
  return fmt::format("{} = {} {} = {}; nearest: tp = {}", broken->field, broken->size, broken->rule,
                     shards, nearest_sharding(model, shards, whole_experts));
}

bool shares_experts(const ModelConfig& model, int ep) {
  return ep == 1 || (model.experts.count > 0 && model.experts.count % ep == 0);
}

}  // namespace troupe::stages
