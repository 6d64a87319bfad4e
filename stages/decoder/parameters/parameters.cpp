#include "stages/decoder/parameters/parameters.h"

#include <utility>

#include "stages/decoder/layers/arena.h"
#include "tensor/errors/error.h"

namespace troupe::stages {

using tensor::Buffer;
using tensor::DType;
using tensor::Tensor;

namespace {

Buffer allocate(tensor::Device& device, std::int64_t elements) {
  if (elements == 0) return {};
  return device.allocate(static_cast<std::size_t>(elements) * sizeof(float),
                         tensor::MemoryKind::device);
}

/// A float32 tensor of a storage, from an element on; one of no elements if there is no storage.
Tensor view(const Buffer& buffer, std::int64_t offset, const tensor::Shape& shape) {
  if (!buffer.data()) return {nullptr, DType::f32, {0}};
  return buffer.view(DType::f32, shape, static_cast<std::size_t>(offset) * sizeof(float));
}

Tensor view(const Buffer& buffer, const ParameterLayout::Place& place, std::int64_t skip = 0) {
  return view(buffer, skip + place.offset, place.shape);
}

UpdateRule update_of(const ParameterInfo& info, bool decay_all) {
  UpdateRule update = info.update;
  if (info.shape.rank() < 2 && !decay_all && !update.weight_decay) update.weight_decay = 0;
  return update;
}

/// Joins adjacent matrices or vectors into one view.
Tensor join(std::span<const Tensor> parts) {
  Tensor joined = parts.front();
  if (!joined) return {};
  std::int64_t rows = 0;
  for (const Tensor& part : parts) rows += part.shape[0];
  if (joined.shape.rank() == 1)
    joined.shape = {rows};
  else
    joined.shape = {rows, joined.shape[1]};
  return joined;
}

}  // namespace

Parameters::Parameters(const StageSpec& spec, tensor::Device& device)
    : layout_(lay_out_parameters(spec)),
      ops_(device.ops()),
      divides_gradients_(spec.state.gradients && spec.training) {
  const std::int64_t weights = spec.state.weights ? layout_.head_use_begin : layout_.size;
  TROUPE_ASSERT(!(spec.model.adapter && spec.state.weights));
  weight_memory_ = allocate(device, weights);
  apart_memory_ = allocate(device, layout_.apart);
  gathered_memory_ = allocate(device, layout_.forward_slots.size + layout_.backward_slots.size);
  if (spec.training) {
    gradient_memory_ = allocate(device, divides_gradients_ ? layout_.kept_size : layout_.size);
    bucket_memory_ = allocate(device, layout_.gradient_slots.size);
    exp_avg_memory_ = allocate(device, layout_.moments);
    exp_avg_sq_memory_ = allocate(device, layout_.moments);
    twin_memory_ = allocate(device, 2 * layout_.twin_moments);
    if (!divides_gradients_) tied_memory_ = allocate(device, layout_.tied_size);
  }
  if (spec.training && spec.keep_previous) {
    const std::int64_t twins = 2 * layout_.twin_moments;
    previous_memory_ = allocate(device, weights + twins + 2 * layout_.moments);
    saved_ = {{view(weight_memory_, 0, {weights}), view(previous_memory_, 0, {weights})}};
    if (twins > 0)
      saved_.push_back({view(twin_memory_, 0, {twins}), view(previous_memory_, weights, {twins})});
  }
  const StateSharding& state = spec.state;
  for (const ParameterLayout::Entry& entry : layout_.entries) {
    const auto slice_of = [&](int replica) {
      if (entry.is_apart) return replica == state.index ? 0 : -1;
      return replica < 0 ? replica : state.slice_of(replica, entry.is_expert);
    };
    all_.push_back({.name = entry.info.name,
                    .offset = entry.place,
                    .exp_avg = view(exp_avg_memory_, entry.moments),
                    .exp_avg_sq = view(exp_avg_sq_memory_, entry.moments),
                    .twin_exp_avg = view(twin_memory_, entry.twin_moments),
                    .twin_exp_avg_sq = view(twin_memory_, entry.twin_moments, layout_.twin_moments),
                    .update = update_of(entry.info, spec.decay_all),
                    .owned = entry.owned,
                    .owned_by_stage = entry.owned_by_stage,
                    .is_expert = entry.is_expert,
                    .whole_shape = entry.info.shape,
                    .region = entry.region,
                    .row_cuts = entry.row_cuts,
                    .slice = slice_of(state.index),
                    .twin_slice = slice_of(state.twin())});
  }
  view_whole(spec);
  view_slots(spec);
  view_kept(spec);
  view_buckets(spec);
  next_ = all_;
  for (std::size_t i = 0; previous_memory_.data() && i < next_.size(); ++i) {
    const auto& moments = layout_.entries[i].moments;
    const std::int64_t begin = saved_elements();
    next_[i].exp_avg = view(previous_memory_, moments, begin);
    next_[i].exp_avg_sq = view(previous_memory_, moments, begin + layout_.moments);
  }
}

/// Weights and gradients that are always whole.
void Parameters::view_whole(const StageSpec& spec) {
  if (!spec.state.weights) weights_ = view(weight_memory_, 0, {layout_.size});
  if (!divides_gradients_) gradients_ = view(gradient_memory_, 0, {layout_.size});
  if (!divides_gradients_ && layout_.tied_size > 0)
    head_use_ = view(tied_memory_, 0, layout_.entries.front().shape);
  for (std::size_t i = 0; i < all_.size(); ++i) {
    const auto& [offset, shape] = std::pair(layout_.entries[i].offset, layout_.entries[i].shape);
    if (layout_.entries[i].is_apart) {
      all_[i].weight = view(apart_memory_, offset, shape);
      all_[i].gradient = view({}, 0, {0});
      continue;
    }
    if (weights_) all_[i].weight = view(weight_memory_, offset, shape);
    if (gradients_) all_[i].gradient = view(gradient_memory_, offset, shape);
  }
}

/// Weights and gradients that are whole while their bucket has a slot.
void Parameters::view_slots(const StageSpec& spec) {
  const auto in_slot = [&](const Buffer& memory, const BucketSlots& slots, std::size_t bucket,
                           const ParameterLayout::Entry& entry, std::int64_t skip = 0) {
    const std::int64_t begin = skip + slots.offset_of(bucket) - layout_.buckets[bucket].begin;
    return view(memory, begin + entry.offset, entry.shape);
  };
  const BucketSlots &forward = layout_.forward_slots, &backward = layout_.backward_slots;
  const bool gathers_again = !backward.slot_of.empty();
  for (std::size_t i = 0; i < all_.size(); ++i) {
    const ParameterLayout::Entry& entry = layout_.entries[i];
    const auto bucket = static_cast<std::size_t>(entry.bucket);
    if (divides_gradients_ && !entry.is_apart)
      all_[i].gradient = in_slot(bucket_memory_, layout_.gradient_slots, bucket, entry);
    if (spec.state.weights) all_[i].weight = in_slot(gathered_memory_, forward, bucket, entry);
    forward_views_.push_back(all_[i].weight);
    backward_views_.push_back(gathers_again
                                  ? in_slot(gathered_memory_, backward, bucket, entry, forward.size)
                                  : all_[i].weight);
    gradient_views_.push_back(all_[i].gradient);
  }
  if (layout_.head_use < 0) return;
  const auto bucket = static_cast<std::size_t>(layout_.head_use);
  const ParameterLayout::Entry& entry = layout_.entries.front();
  if (divides_gradients_)
    head_use_ = in_slot(bucket_memory_, layout_.gradient_slots, bucket, entry);
  if (!spec.state.weights) return;
  forward_head_use_ = in_slot(gathered_memory_, forward, bucket, entry);
  backward_head_use_ = gathers_again
                           ? in_slot(gathered_memory_, backward, bucket, entry, forward.size)
                           : forward_head_use_;
}

/// The slices that stay.
void Parameters::view_kept(const StageSpec& spec) {
  const bool has_twin = spec.state.twin() >= 0;
  for (std::size_t i = 0; i < all_.size(); ++i) {
    const ParameterLayout::Entry& entry = layout_.entries[i];
    Parameter& parameter = all_[i];
    const auto place = [&](bool is_divided, const Buffer& memory, const Tensor& whole, bool twin) {
      if (is_divided) return view(memory, twin ? entry.twin_kept : entry.kept);
      if (!whole) return Tensor{};
      return parameter.rows_of(twin ? parameter.twin_slice : parameter.slice, whole);
    };
    const bool weights = spec.state.weights, gradients = divides_gradients_;
    if (entry.is_apart) {
      parameter.kept_weight = parameter.weight;
      parameter.kept_gradient = parameter.gradient;
      continue;
    }
    parameter.kept_weight = place(weights, weight_memory_, parameter.weight, false);
    parameter.kept_gradient = place(gradients, gradient_memory_, parameter.gradient, false);
    if (!has_twin) continue;
    parameter.twin_weight = place(weights, weight_memory_, parameter.weight, true);
    parameter.twin_gradient = place(gradients, gradient_memory_, parameter.gradient, true);
  }
}

void Parameters::view_buckets(const StageSpec& spec) {
  if (!spec.training) return;
  const bool divides_weights = spec.state.weights;
  for (std::size_t b = 0; b < layout_.buckets.size(); ++b) {
    const Bucket& range = layout_.buckets[b];
    const ParameterLayout::Kept& kept = layout_.kept[b];
    const bool is_expert = layout_.has_experts(range);
    StateBucket bucket{.range = range,
                       .is_head_use = static_cast<int>(b) == layout_.head_use,
                       .is_expert = is_expert};
    const auto slices = cut_into_slices(range, layout_.pieces, spec.state.count_of(is_expert));
    const auto slice_of = [&](const Buffer& memory, int replica) {
      const Slice& slice =
          slices[static_cast<std::size_t>(spec.state.slice_of(replica, is_expert))];
      return view(memory, slice.begin, {slice.size()});
    };
    const auto in_slot = [&](const Buffer& memory, const BucketSlots& slots,
                             std::int64_t skip = 0) {
      return view(memory, skip + slots.offset_of(b), {range.size()});
    };
    if (divides_gradients_) {
      bucket.gradient = in_slot(bucket_memory_, layout_.gradient_slots);
      bucket.gradient_slot = layout_.gradient_slots.slot_of[b];
      bucket.kept_gradient = view(gradient_memory_, kept.offset, {kept.size});
      if (spec.state.twins && !bucket.is_head_use)
        bucket.twin_gradient = view(gradient_memory_, kept.twin_offset, {kept.twin_size});
    } else if (!bucket.is_head_use) {
      bucket.gradient = view(gradient_memory_, range.begin, {range.size()});
      bucket.kept_gradient = slice_of(gradient_memory_, spec.state.index);
      if (spec.state.twins) bucket.twin_gradient = slice_of(gradient_memory_, spec.state.twin());
    }
    if (divides_weights) {
      // The head's use is gathered from the embedding's slices.
      const auto source =
          bucket.is_head_use ? static_cast<std::size_t>(layout_.entries.front().bucket) : b;
      bucket.kept_weights =
          view(weight_memory_, layout_.kept[source].offset, {layout_.kept[source].size});
      bucket.forward_weights = bucket.backward_weights =
          in_slot(gathered_memory_, layout_.forward_slots);
      bucket.forward_slot = bucket.backward_slot = layout_.forward_slots.slot_of[b];
      if (!layout_.backward_slots.slot_of.empty()) {
        bucket.backward_weights =
            in_slot(gathered_memory_, layout_.backward_slots, layout_.forward_slots.size);
        bucket.backward_slot = layout_.backward_slots.slot_of[b];
      }
    } else if (!bucket.is_head_use) {
      bucket.forward_weights = bucket.backward_weights =
          view(weight_memory_, range.begin, {range.size()});
      bucket.kept_weights = slice_of(weight_memory_, spec.state.index);
    }
    buckets_.push_back(bucket);
  }
}

void Parameters::save_in_place(tensor::Stream& stream) const {
  for (const Saved& saved : saved_) ops_.copy(stream, saved.updated, saved.copy);
}

void Parameters::restore_in_place(tensor::Stream& stream) const {
  for (const Saved& saved : saved_) ops_.copy(stream, saved.copy, saved.updated);
}

std::int64_t Parameters::saved_elements() const {
  std::int64_t elements = 0;
  for (const Saved& saved : saved_) elements += saved.copy.num_elements();
  return elements;
}

std::int64_t Parameters::give_up_gradients(tensor::Device& device) {
  std::size_t bytes = 0;
  for (const tensor::Buffer* memory : gradient_buffers()) bytes += device.give_back(*memory);
  return static_cast<std::int64_t>(bytes);
}

void Parameters::bring_back_gradients(tensor::Device& device) {
  for (const tensor::Buffer* memory : gradient_buffers()) device.bring_back(*memory);
}

StageMemory Parameters::allocated() const {
  const auto sum = [](auto&... buffers) {
    return static_cast<std::int64_t>((std::size_t{0} + ... + buffers.bytes()));
  };
  return {.weights = sum(weight_memory_, apart_memory_),
          .gradients = sum(gradient_memory_, tied_memory_),
          .optimizer = sum(exp_avg_memory_, exp_avg_sq_memory_, twin_memory_, previous_memory_),
          .gathered = sum(gathered_memory_),
          .buckets = sum(bucket_memory_)};
}

Tensor Parameters::base() const {
  return layout_.apart > 0 ? view(apart_memory_, 0, {layout_.apart}) : Tensor{};
}

void Parameters::swap_moments() {
  for (std::size_t i = 0; i < all_.size(); ++i) {
    std::swap(all_[i].exp_avg, next_[i].exp_avg);
    std::swap(all_[i].exp_avg_sq, next_[i].exp_avg_sq);
  }
}

Tensor Parameters::tied_gradient() const {
  const auto table = layout_.table();
  if (!layout_.ties_head || !table || head_use_) return {};
  const Parameter& matrix = all_[*table];
  return divides_gradients_ ? matrix.kept_gradient : matrix.gradient;
}

Tensor Parameters::view_of(const Views& views, Module module, Field field, int layer) const {
  std::vector<Tensor> joined;
  for (const int number : layout_.numbers_of(module, field, layer))
    joined.push_back(views[static_cast<std::size_t>(number)]);
  return joined.empty() ? Tensor{} : join(joined);
}

NormParameters Parameters::norm(const Views& views, Module module, int layer) const {
  return {.weight = view_of(views, module, Field::weight, layer),
          .bias = view_of(views, module, Field::bias, layer)};
}

EmbeddingParameters Parameters::embedding(const Views& views) const {
  return {.table = view_of(views, Module::embedding, Field::weight),
          .positions = view_of(views, Module::embedding, Field::positions)};
}

BlockParameters Parameters::block(int layer, const Views& views) const {
  const auto sublayer = [&](Module norm_module, Module module,
                            Module end_norm_module) -> SublayerParameters {
    const auto field = [&](Field which) { return view_of(views, module, which, layer); };
    return {.norm = norm(views, norm_module, layer),
            .in = {field(Field::weight), field(Field::bias)},
            .out = {field(Field::out_weight), field(Field::out_bias)},
            .end_norm = norm(views, end_norm_module, layer),
            .query_norm = field(Field::query_norm),
            .key_norm = field(Field::key_norm),
            .router = field(Field::router),
            .in_adapter = {field(Field::lora_a), field(Field::lora_b)},
            .out_adapter = {field(Field::out_lora_a), field(Field::out_lora_b)}};
  };
  return {
      .attention = sublayer(Module::attention_norm, Module::attention, Module::attention_end_norm),
      .feed_forward =
          sublayer(Module::feed_forward_norm, Module::feed_forward, Module::feed_forward_end_norm)};
}

HeadParameters Parameters::head(const Views& views, const Tensor& head_use) const {
  return {.norm = norm(views, Module::final_norm),
          .projection = head_use ? head_use : view_of(views, Module::head, Field::weight),
          .bias = view_of(views, Module::head, Field::bias)};
}

HeadParameters Parameters::head_weights(Pass pass) const {
  return head(weights_of(pass), pass == Pass::forward ? forward_head_use_ : backward_head_use_);
}

HeadParameters Parameters::head_gradients() const {
  return head(gradient_views_, head_use_);
}

std::vector<Tensor> Parameters::gradients_of(Module module, int layer) const {
  if (module == Module::head && head_use_) return {head_use_};
  std::vector<Tensor> gradients;
  for (const int number : layout_.numbers_of(module, std::nullopt, layer))
    if (const Tensor& gradient = gradient_views_[static_cast<std::size_t>(number)])
      gradients.push_back(gradient);
  return gradients;
}

void Parameters::add_tied_uses(tensor::Stream& stream, const ParameterRange& parameters) const {
  if (!head_use_) return;
  const std::size_t embedding = layout_.table().value();
  const auto number = static_cast<int>(embedding);
  if (number < parameters.first || number >= parameters.end) return;
  const Parameter& matrix = all_[embedding];
  if (divides_gradients_)
    ops_.accumulate(
        stream, buckets_.back().kept_gradient,
        buckets_[static_cast<std::size_t>(layout_.entries[embedding].bucket)].kept_gradient);
  else
    ops_.accumulate(stream, head_use_, matrix.gradient);
}

}  // namespace troupe::stages
