#include "stages/decoder/parameters/parameter_layout.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "stages/decoder/layers/arena.h"
#include "tensor/errors/error.h"

namespace troupe::stages {
namespace {

constexpr std::int64_t kAlignedElements = Arena::kAlignment / sizeof(float);

bool has_embedding(const StageSpec& spec) {
  return std::ranges::any_of(spec.chunks, &ChunkSpec::embedding);
}
bool has_head(const StageSpec& spec) {
  return std::ranges::any_of(spec.chunks, &ChunkSpec::head);
}

/// Whether the chunk's own layers have the parameter. A tied matrix belongs to the embedding.
bool has(const ChunkSpec& chunk, const ParameterInfo& info, const ModelConfig& model) {
  if (info.layer == model.num_hidden_layers) return chunk.head;
  if (info.layer < 0) return chunk.embedding;
  return chunk.first_layer <= info.layer && info.layer < chunk.end_layer;
}

bool owns(const StageSpec& spec, const ParameterInfo& info) {
  return std::ranges::any_of(spec.chunks, [&](const ChunkSpec& chunk) {
    return chunk.owned && has(chunk, info, spec.model);
  });
}

bool holds(const StageSpec& spec, const ParameterInfo& info) {
  if (!holds_expert(info, spec.model, spec.sharding)) return false;
  const auto has_it = [&](const ChunkSpec& chunk) { return has(chunk, info, spec.model); };
  const bool tied_use =
      info.layer == kEmbeddingLayer && spec.model.tie_word_embeddings && has_head(spec);
  return tied_use || std::ranges::any_of(spec.chunks, has_it);
}

std::int64_t aligned(std::int64_t elements) {
  return (elements + kAlignedElements - 1) / kAlignedElements * kAlignedElements;
}

struct Places {
  std::vector<tensor::Shape> shapes;
  std::vector<std::int64_t> offsets;
};
Places places_of(const ParameterLayout& layout) {
  Places places;
  for (const ParameterLayout::Entry& entry : layout.entries) {
    places.shapes.push_back(entry.is_apart ? tensor::Shape{0} : entry.shape);
    places.offsets.push_back(entry.place);
  }
  return places;
}

/// The chunk whose layers have the parameter; for a tied matrix without the embedding the head's.
std::ptrdiff_t chunk_of(const StageSpec& spec, const ParameterInfo& info) {
  const auto has_it = [&](const ChunkSpec& chunk) { return has(chunk, info, spec.model); };
  return std::ranges::find_if(spec.chunks, has_it) - spec.chunks.begin();
}

/// Where buckets may be cut. What one product computes with stays together. Divided gradients are
/// reduced whenever a chunk's backward ends, so that no bucket has gradients of two chunks, or of
/// both ends of one; nor one of experts that replicas share out and others; nor one of a tied
/// matrix and others, because its slices are exchanged with another stage. Divided weights are
/// gathered by unit: embedding, positions, each layer, shared experts apart, norm and head.
std::vector<Seam> seams_of(const StageSpec& spec, const ParameterLayout& layout) {
  const StateSharding& state = spec.state;
  const auto is_tied = [&](const ParameterInfo& info) {
    return spec.model.tie_word_embeddings && info.layer == kEmbeddingLayer;
  };
  std::vector<Seam> seams;
  const ParameterInfo* before = nullptr;
  bool was_expert = false;
  for (const ParameterLayout::Entry& entry : layout.entries) {
    const ParameterInfo& info = entry.info;
    Seam seam = info.is_joined ? Seam::joined : Seam::free;
    if (entry.is_expert != was_expert) seam = Seam::cut;
    was_expert = entry.is_expert;
    if (before && info.layer != before->layer) {
      const bool ends_chunk = chunk_of(spec, info) != chunk_of(spec, *before);
      const bool ends_use = is_tied(*before) || info.layer == kPositionsLayer || ends_chunk;
      if (state.weights || (state.gradients && ends_use)) seam = Seam::cut;
    }
    seams.push_back(seam);
    before = &info;
  }
  return seams;
}

/// Lays moments of the rows of a replica's slices out close together. Returns the elements that
/// they take.
std::int64_t lay_out_slice(const StateSharding& state, int replica, ParameterLayout& layout,
                           ParameterLayout::Place ParameterLayout::Entry::*places) {
  std::int64_t end = 0;
  for (ParameterLayout::Entry& entry : layout.entries) {
    const auto i = static_cast<std::size_t>(state.slice_of(replica, entry.is_expert));
    const bool frozen = entry.info.update.frozen;
    const std::int64_t rows = frozen ? 0 : entry.row_cuts[i + 1] - entry.row_cuts[i];
    entry.*places = {.offset = end, .shape = {rows * entry.shape.num_elements() / entry.shape[0]}};
    end = aligned(end + (entry.*places).shape.num_elements());
  }
  return end;
}

/// The place of a slice of a parameter in the storage where the slice of its bucket, which has the
/// elements from `begin` on, lies at `offset`.
ParameterLayout::Place kept_place(const ParameterLayout::Entry& entry, int slice,
                                  std::int64_t begin, std::int64_t offset) {
  const auto i = static_cast<std::size_t>(slice);
  const std::int64_t columns = entry.shape.num_elements() / entry.shape[0];
  const std::int64_t rows = entry.row_cuts[i + 1] - entry.row_cuts[i];
  const std::int64_t first = entry.offset + entry.row_cuts[i] * columns;
  return {.offset = rows == 0 ? offset : offset + first - begin, .shape = {rows * columns}};
}

/// Storages of slices: by bucket this replica's, then all that it keeps for another.
void lay_out_kept(const StateSharding& state, ParameterLayout& layout) {
  const auto add_slices = [&](int replica, auto offset, auto size, auto place) {
    for (std::size_t b = 0; b < layout.buckets.size(); ++b) {
      const bool is_head_use = static_cast<int>(b) == layout.head_use;
      if (is_head_use && replica != state.index) continue;
      const Bucket& bucket = layout.buckets[b];
      const bool is_expert = layout.has_experts(bucket);
      const int slice = state.slice_of(replica, is_expert);
      const Slice kept = slice_of(bucket, layout.pieces, state.count_of(is_expert), slice);
      if (is_head_use) layout.head_use_begin = layout.kept_size;
      layout.kept[b].*offset = layout.kept_size;
      layout.kept[b].*size = kept.size();
      layout.kept_size = aligned(layout.kept_size + kept.size());
      for (int i = bucket.parameters.first; i < bucket.parameters.end && !is_head_use; ++i) {
        auto& entry = layout.entries[static_cast<std::size_t>(i)];
        if (entry.is_apart) continue;
        entry.*place = kept_place(entry, slice, kept.begin, layout.kept[b].*offset);
      }
    }
  };
  using Kept = ParameterLayout::Kept;
  using Entry = ParameterLayout::Entry;
  layout.kept.assign(layout.buckets.size(), {});
  layout.kept_size = 0;
  if (state.twins)
    add_slices(state.twin(), &Kept::twin_offset, &Kept::twin_size, &Entry::twin_kept);
  add_slices(state.index, &Kept::offset, &Kept::size, &Entry::kept);
  if (layout.head_use < 0) layout.head_use_begin = layout.kept_size;
}

/// Lays whole moments out as their parameters are, without those that are frozen.
void lay_out_moments(ParameterLayout& layout) {
  std::int64_t end = 0;
  for (ParameterLayout::Entry& entry : layout.entries) {
    if (!entry.info.is_joined) end = aligned(end);
    entry.moments = {.offset = end,
                     .shape = entry.info.update.frozen ? tensor::Shape{0} : entry.shape};
    end += entry.moments.shape.num_elements();
  }
  layout.moments = aligned(end);
}

/// Cuts the gradients into pieces and, between pieces, the rows into slices.
void cut_pieces(const StateSharding& state, ParameterLayout& layout) {
  const auto [shapes, offsets] = places_of(layout);
  layout.pieces = cut_into_pieces(shapes, offsets);
  const auto cuts_of = [&](bool is_expert) {
    return cut_rows(shapes, offsets, layout.buckets, layout.pieces, state.count_of(is_expert));
  };
  auto cuts = cuts_of(false);
  auto expert_cuts = state.ep > 1 ? cuts_of(true) : std::vector<std::vector<std::int64_t>>();
  for (std::size_t i = 0; i < cuts.size(); ++i) {
    ParameterLayout::Entry& entry = layout.entries[i];
    if (entry.is_apart) continue;
    const bool has_own = entry.is_expert && state.ep > 1;
    entry.row_cuts = std::move(has_own ? expert_cuts[i] : cuts[i]);
  }
  lay_out_moments(layout);
}

void cut_buckets(const StageSpec& spec, ParameterLayout& layout) {
  if (spec.state.count == 1) return;
  layout.buckets = cut_into_buckets(places_of(layout).offsets, layout.size,
                                    spec.state.weights ? BucketRule{} : spec.state.buckets,
                                    seams_of(spec, layout));
  for (std::size_t b = 0; b < layout.buckets.size(); ++b) {
    const ParameterRange& range = layout.buckets[b].parameters;
    for (int i = range.first; i < range.end; ++i)
      layout.entries[static_cast<std::size_t>(i)].bucket = static_cast<int>(b);
  }
}

/// The buckets in the order in which a backward through the whole stage ends with them.
std::vector<int> backward_order(const ParameterLayout& layout) {
  std::vector<int> order, late;
  if (layout.head_use >= 0) order.push_back(layout.head_use);
  for (std::size_t b = 0; b < layout.buckets.size(); ++b) {
    const auto bucket = static_cast<int>(b);
    if (bucket == layout.head_use) continue;
    const auto first = static_cast<std::size_t>(layout.buckets[b].parameters.first);
    const bool is_late = layout.entries[first].info.layer == kPositionsLayer;
    (is_late ? late : order).push_back(bucket);
  }
  // The embedding's nodes come last, and its own bucket is the last one.
  order.insert(order.end() - 1, late.begin(), late.end());
  return order;
}

/// Buckets that follow each other in `order` have slots in turn.
BucketSlots take_turns(const ParameterLayout& layout, const std::vector<int>& order,
                       std::size_t num_slots) {
  num_slots = std::min(num_slots, order.size());
  BucketSlots slots{.slot_of = std::vector<int>(order.size()), .offsets = {}};
  std::vector<std::int64_t> sizes(num_slots);
  for (std::size_t i = 0; i < order.size(); ++i) {
    const std::size_t slot = i % num_slots, bucket = static_cast<std::size_t>(order[i]);
    slots.slot_of[bucket] = static_cast<int>(slot);
    sizes[slot] = std::max(sizes[slot], layout.buckets[bucket].size());
  }
  for (const std::int64_t size : sizes) {
    slots.offsets.push_back(slots.size);
    slots.size = aligned(slots.size + size);
  }
  return slots;
}

/// The most of some kind of things that one of the model's nodes has to do with; `of` gives them
/// for a parameter of its module. Layers are alike, so that one tells of all, unless some alone
/// have experts.
template <typename Of>
std::size_t most_in_a_module(ModelConfig model, const Of& of) {
  if (model.experts.count == 0) model.num_hidden_layers = 1;
  std::map<std::pair<Module, int>, std::set<int>> found;
  std::size_t most = 1;
  for (const ParameterInfo& info : parameters_of(model)) {
    std::set<int>& things = found[{info.module, std::max(0, info.layer)}];
    things.insert(of(info));
    most = std::max(most, things.size());
  }
  return most;
}

/// A node adds to a bucket for each field of its module, at most; one more slot lets it run beside
/// the reduction of the bucket before. It reads the weights of the units in which these are.
void lay_out_slots(const StageSpec& spec, ParameterLayout& layout) {
  std::vector<int> order = backward_order(layout);
  const auto field = [](const ParameterInfo& info) { return static_cast<int>(info.field); };
  const auto unit = [&](const ParameterInfo& info) {
    return 2 * info.layer + (spec.sharding.ep > 1 && info.expert >= 0 ? 1 : 0);
  };
  if (spec.state.gradients)
    layout.gradient_slots = take_turns(layout, order, 1 + most_in_a_module(spec.model, field));
  if (!spec.state.weights) return;
  const std::size_t count = std::max(static_cast<std::size_t>(1 + spec.state.prefetch),
                                     most_in_a_module(spec.model, unit));
  if (spec.state.reshards) layout.backward_slots = take_turns(layout, order, count);
  std::ranges::reverse(order);
  layout.forward_slots = take_turns(layout, order, spec.state.reshards ? count : order.size());
}

}  // namespace

std::vector<int> ParameterLayout::numbers_of(Module module, std::optional<Field> field,
                                             int layer) const {
  if (module == Module::head && ties_head && field.value_or(Field::weight) == Field::weight)
    return numbers_of(Module::embedding, Field::weight);
  const bool is_of_layer = Module::attention_norm <= module && module < Module::final_norm;
  std::vector<int> numbers;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const ParameterInfo& info = entries[i].info;
    if (info.module == module && info.field == field.value_or(info.field) &&
        (!is_of_layer || info.layer == layer))
      numbers.push_back(static_cast<int>(i));
  }
  return numbers;
}

std::vector<int> ParameterLayout::trained_of(Module module, int layer) const {
  std::vector<int> numbers = numbers_of(module, std::nullopt, layer);
  std::erase_if(numbers, [&](int i) { return entries[static_cast<std::size_t>(i)].is_apart; });
  return numbers;
}

std::optional<std::size_t> ParameterLayout::table() const {
  const std::vector<int> numbers = numbers_of(Module::embedding, Field::weight);
  if (numbers.empty()) return std::nullopt;
  return static_cast<std::size_t>(numbers.front());
}

std::vector<int> ParameterLayout::buckets_of(Module module, int layer) const {
  if (module == Module::head && head_use >= 0) return {head_use};
  std::vector<int> buckets;
  for (const int parameter : trained_of(module, layer)) {
    const int bucket = entries[static_cast<std::size_t>(parameter)].bucket;
    if (buckets.empty() || buckets.back() != bucket) buckets.push_back(bucket);
  }
  return buckets;
}

int ParameterLayout::bucket_of(int layer) const {
  const auto has_layer = [&](const Entry& entry) { return entry.info.layer == layer; };
  const auto found = std::ranges::find_if(entries, has_layer);
  TROUPE_ASSERT(found != entries.end());
  return found->bucket;
}

int ParameterLayout::bucket_of_experts(int layer) const {
  const auto is_one = [&](const Entry& entry) {
    return entry.info.layer == layer && entry.is_expert;
  };
  const auto found = std::ranges::find_if(entries, is_one);
  return found == entries.end() ? bucket_of(layer) : found->bucket;
}

int ParameterLayout::bucket_of_head(const ModelConfig& model) const {
  if (head_use >= 0) return head_use;
  const int last = static_cast<int>(model.num_hidden_layers);
  return bucket_of(model.tie_word_embeddings ? kEmbeddingLayer : last);
}

std::vector<Bucket> ParameterLayout::buckets_by(const BucketRule& rule) const {
  if (!buckets.empty()) return buckets;
  std::vector<bool> is_expert;
  for (const Entry& entry : entries) is_expert.push_back(entry.is_expert);
  return cut_into_buckets(places_of(*this).offsets, size, rule, expert_seams(is_expert));
}

ParameterLayout lay_out_parameters(const StageSpec& spec) {
  ParameterLayout layout{.ties_head = spec.model.tie_word_embeddings};
  bool is_after_other = false;  // after a parameter that is not here
  for (ParameterInfo& info : parameters_of(spec.model)) {
    const bool is_first = std::exchange(is_after_other, !holds(spec, info));
    if (is_after_other) continue;
    if (is_first) info.is_joined = false;
    const bool is_apart = info.update.is_base;
    std::int64_t& end = is_apart ? layout.apart : layout.size;
    if (!info.is_joined) end = aligned(end);
    if (is_apart) layout.size = aligned(layout.size);
    ParameterLayout::Entry entry{
        .info = std::move(info), .offset = end, .is_apart = is_apart, .place = layout.size};
    entry.shape = local_shape(entry.info, spec.model, spec.sharding);
    entry.region = region_of(entry.info, spec.model, spec.sharding);
    entry.is_expert = spec.sharding.ep > 1 && entry.info.expert >= 0;
    entry.owned_by_stage = owns(spec, entry.info);
    entry.owned = entry.owned_by_stage && owns_region(entry.info, spec.model, spec.sharding);
    end += entry.shape.num_elements();
    layout.entries.push_back(std::move(entry));
  }
  // A stage without matrices of an adapter has gradients of nothing, which are summed all the same.
  layout.size = aligned(std::max<std::int64_t>(layout.size, layout.apart > 0 ? 1 : 0));
  const bool both_uses = spec.model.tie_word_embeddings && !spec.model.adapter &&
                         has_embedding(spec) && has_head(spec);
  if (both_uses) layout.tied_size = layout.entries.front().shape.num_elements();
  cut_buckets(spec, layout);
  cut_pieces(spec.state, layout);
  if (spec.state.count == 1) return layout;
  if (both_uses && (spec.state.gradients || spec.state.weights)) {
    layout.head_use = static_cast<int>(layout.buckets.size());
    layout.buckets.push_back(
        Bucket{layout.buckets[static_cast<std::size_t>(layout.entries.front().bucket)]});
  }
  lay_out_slots(spec, layout);
  keep_slices(spec.state, layout);
  return layout;
}

void keep_slices(const StateSharding& state, ParameterLayout& layout) {
  using Entry = ParameterLayout::Entry;
  if (state.count == 1) return;
  layout.moments = lay_out_slice(state, state.index, layout, &Entry::moments);
  if (state.twins)
    layout.twin_moments = lay_out_slice(state, state.twin(), layout, &Entry::twin_moments);
  lay_out_kept(state, layout);
}

}  // namespace troupe::stages
