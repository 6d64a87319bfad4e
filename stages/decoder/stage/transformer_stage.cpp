#include "stages/decoder/stage/transformer_stage.h"

#include <algorithm>
#include <deque>
#include <utility>

#include "stages/decoder/chunk/chunk.h"
#include "stages/decoder/parameters/parameters.h"
#include "stages/decoder/stage/optimizer.h"
#include "stages/decoder/stage/router_loads.h"
#include "stages/stage/gradient_pieces.h"
#include "tensor/errors/error.h"

namespace troupe::stages {

using tensor::Buffer;
using tensor::Device;
using tensor::Tensor;

namespace {

/// What layers run on. `groups`: null if nothing is computed.
struct Lane {
  const Streams& streams;
  const tensor::TensorParallelGroups* groups;
  const tensor::ExpertParallelGroups* experts;
};

/// `again`: for what backwards compute again.
Layers make_layers(const StageSpec& spec, Device& device, const Lane& lane, const Lane& again) {
  const auto& [streams, groups, experts] = lane;
  const bool head = std::ranges::any_of(spec.chunks, &ChunkSpec::head);
  const auto discards_any = [&](const ChunkSpec& chunk) { return discards(chunk, spec.recompute); };
  const bool recomputes = spec.training && std::ranges::any_of(spec.chunks, discards_any);
  const auto& [size, shard, sequence_parallel, ep, ep_member, whole_experts] = spec.sharding;
  const LayerSpec layer = {.model = spec.model,
                           .micro = spec.micro,
                           .lanes = spec.lanes,
                           .row_multiple = spec.row_multiple,
                           .seq_len = spec.seq_len,
                           .documents = spec.documents,
                           .global_samples = spec.global_tokens / spec.seq_len,
                           .seed = spec.seed,
                           .parallel = {.size = size,
                                        .shard = shard,
                                        .sequence_parallel = sequence_parallel,
                                        .groups = groups},
                           .experts = {.size = ep, .member = ep_member, .groups = experts},
                           .whole_experts = whole_experts};
  LayerSpec layer_again = layer;
  layer_again.parallel.groups = again.groups;
  return {
      .embedding = Embedding(layer, device, streams),
      .block = DecoderBlock(layer, device, streams),
      .recompute_block =
          recomputes ? std::make_unique<DecoderBlock>(layer_again, device, again.streams) : nullptr,
      .head = head ? std::make_unique<HeadLoss>(layer, device, streams) : nullptr,
      .attentions = attention_numbers(spec.model),
      .routed = routed_layers(spec.model),
      .dropout = LayerDropout(layer),
      .ops = &device.ops(),
      .streams = &streams,
      .sharding = spec.sharding,
      .recompute = recomputes ? spec.recompute : Recompute{},
      .parallel = layer.parallel};
}

std::size_t packed_bytes(const StageSpec& spec, const Layers& layers) {
  Arena count;
  lay_out_packed(spec, lay_out_parameters(spec), layers, count);
  return count.bytes();
}

std::size_t activation_bytes(const StageSpec& spec, const Layers& layers) {
  Arena count;
  lay_out_activations(spec.chunks, layers, spec.training, count);
  return count.bytes();
}

class TransformerStage final : public Stage {
 public:
  TransformerStage(const StageSpec& spec, Device& device);
  ~TransformerStage() override { leave(streams_); }

  int num_chunks() const override { return static_cast<int>(chunks_.size()); }
  StageMemory allocated() const override;
  void join(const ShardGroups& groups) override;
  void set_gate(NodeGate* gate) override {
    for (Chunk& chunk : chunks_) chunk.set_gate(gate);
  }
  tensor::Shape edge_shape() const override {
    return stages::edge_shape(spec_.rows().capacity, spec_.model.hidden_size, spec_.sharding);
  }
  tensor::DType edge_dtype() const override { return spec_.model.dtype; }

  void begin_step() override;
  std::int64_t give_up_gradients() override;
  std::span<const NodeEffects> nodes(int chunk, Pass pass) const override {
    return at(chunks_, chunk).nodes(pass);
  }
  const tensor::Work* awaited(Pass pass, int chunk, int slot, int node) const override {
    return at(chunks_, chunk).awaited(pass, slot, node);
  }
  void forward_node(const ForwardCall& call, int node) override;
  void backward_node(const BackwardCall& call, int node) override;
  tensor::Event& ran(int chunk, int slot) override { return at(chunks_, chunk).ran(slot); }
  tensor::Stream& stream_of(Pass pass) const override {
    return pass == Pass::forward ? streams_.forward() : streams_.backward();
  }
  void synchronize() override;
  void drop_step() override { streams_.synchronize(); }
  double collective_wait_s() const override;
  std::span<const RouterLoad> router_loads() const override { return router_loads_.all(); }
  double evaluate(int chunk, const Tensor& input, const Tensor& output,
                  std::span<const std::int32_t> ids, std::span<const std::int32_t> targets,
                  const DocumentRows& documents) override;

  std::span<const Parameter> parameters() const override { return parameters_.all(); }
  Tensor gradients() const override { return parameters_.gradients(); }
  Tensor weights() const override { return parameters_.weights(); }
  Tensor base() const override { return parameters_.base(); }
  std::span<const StateBucket> buckets() const override { return parameters_.buckets(); }
  void pack(int bucket, Pass pass) override {
    for (const Chunk& chunk : chunks_) chunk.pack(bucket, pass);
  }
  Tensor tied_gradient() const override { return parameters_.tied_gradient(); }
  void add_tied_uses(tensor::Stream& stream, const ParameterRange& parameters) override {
    parameters_.add_tied_uses(stream, parameters);
  }
  std::unique_ptr<tensor::Work> sum_over_shards(tensor::Stream& stream,
                                                const ParameterRange& parameters,
                                                Sharers sharers) override;
  void squared_norms(std::span<double> out) const override;
  void apply(const tensor::AdamWStep& step) override;
  void step_back() override;
  bool has_previous() const override { return has_previous_; }
  void weights_changed() override;
  void weights_gathered() override { updated() = true; }

 private:
  void pack_if_stale();
  /// Whether packed matrices lag behind updates, which a frozen base has none of.
  bool& updated() { return spec_.model.adapter ? adapters_are_stale_ : packed_is_stale_; }
  void add_update_of_twin(const Parameter& parameter, const tensor::AdamWStep& step);

  const StageSpec spec_;
  tensor::TensorParallelGroups groups_, groups_again_;
  tensor::ExpertParallelGroups experts_;
  tensor::ProcessGroup *gradient_group_ = nullptr, *kv_head_group_ = nullptr;
  std::vector<Tensor> shared_gradients_;  // scratch memory of sum_over_shards()
  tensor::Ops& ops_;
  const Streams streams_, streams_again_;
  const Layers layers_;
  Parameters parameters_;
  const Buffer packed_memory_;
  const Buffer activation_memory_;
  const Buffer loss_;  ///< pinned: of an evaluation, a float64
  RouterLoads router_loads_;
  const GradientSquares squares_;
  std::deque<Chunk> chunks_;
  /// By parameter: what apply() writes beside its weight, instead of packing; empty if the device
  /// must pack.
  std::vector<Tensor> packed_copies_;
  std::vector<tensor::AdamWUpdate> updates_;  // scratch memory of apply()
  bool packed_is_stale_ = true, adapters_are_stale_ = false;
  bool has_previous_ = false;
  std::int64_t given_up_bytes_ = 0;  ///< of gradients, until the next step
};

TransformerStage::TransformerStage(const StageSpec& spec, Device& device)
    : spec_(spec),
      ops_(device.ops()),
      streams_(device),
      streams_again_(streams_.within_backward()),
      layers_(make_layers(spec, device, {streams_, &groups_, &experts_},
                          {streams_again_, &groups_again_, &experts_})),
      parameters_(spec, device),
      packed_memory_(device.allocate(packed_bytes(spec, layers_), tensor::MemoryKind::device)),
      activation_memory_(
          device.allocate(activation_bytes(spec, layers_), tensor::MemoryKind::device)),
      loss_(device.allocate(sizeof(double), tensor::MemoryKind::pinned)),
      router_loads_(spec, layers_.block.load_size(), device),
      squares_(parameters_.all(), device) {
  Arena packed_arena(packed_memory_.data());
  Arena activation_arena(activation_memory_.data());
  const auto packed = lay_out_packed(spec_, lay_out_parameters(spec_), layers_, packed_arena);
  auto activations = lay_out_activations(spec_.chunks, layers_, spec_.training, activation_arena);
  for (std::size_t c = 0; c < spec_.chunks.size(); ++c) {
    chunks_.emplace_back(spec_.chunks[c], layers_, parameters_, packed[c],
                         std::move(activations[c]));
  }
  std::vector<PackedCopy> matrices;
  for (const Chunk& chunk : chunks_) chunk.add_packed_copies(matrices);
  // Weights that others update are packed when they have come.
  // Those of an adapter are often not all of a packed matrix.
  if (spec_.state.count == 1 && !spec_.model.adapter)
    packed_copies_ = copies_of(parameters_.all(), matrices);
  updates_.reserve(2 * parameters_.all().size());  // with twins
}

StageMemory TransformerStage::allocated() const {
  StageMemory memory = parameters_.allocated();
  memory.activations =
      squares_.allocated() + static_cast<std::int64_t>(activation_memory_.bytes() + loss_.bytes() +
                                                       router_loads_.allocated());
  memory.packed = static_cast<std::int64_t>(packed_memory_.bytes());
  return memory;
}

void TransformerStage::join(const ShardGroups& groups) {
  for (Chunk& chunk : chunks_) chunk.forget_collectives();
  groups_ = {.forward = groups.forward, .backward = groups.backward};
  groups_again_ = {.forward = groups.backward, .backward = groups.backward};
  gradient_group_ = groups.gradients;
  kv_head_group_ = groups.kv_head;
  experts_ = groups.experts;
}

/// Packs weights that have changed. They change only while no node reads the packed ones. Divided
/// weights are packed when they have been gathered.
void TransformerStage::pack_if_stale() {
  if (!(packed_is_stale_ || adapters_are_stale_) || spec_.state.weights) return;
  for (const Chunk& chunk : chunks_) packed_is_stale_ ? chunk.pack() : chunk.pack_adapters();
  packed_is_stale_ = adapters_are_stale_ = false;
}

void TransformerStage::begin_step() {
  if (std::exchange(given_up_bytes_, 0) > 0)
    parameters_.bring_back_gradients(streams_.backward().device());
  for (Chunk& chunk : chunks_) chunk.begin_step();
  pack_if_stale();
  streams_.forward_waits();
}

std::int64_t TransformerStage::give_up_gradients() {
  if (given_up_bytes_ > 0) return given_up_bytes_;
  streams_.synchronize();
  given_up_bytes_ = parameters_.give_up_gradients(streams_.backward().device());
  return given_up_bytes_;
}

void TransformerStage::forward_node(const ForwardCall& call, int node) {
  const std::int64_t targets = call.step_targets > 0 ? call.step_targets : spec_.global_tokens;
  const float loss_scale = static_cast<float>(1.0 / static_cast<double>(targets));
  at(chunks_, call.chunk).forward_node(call, node, loss_scale);
}

void TransformerStage::backward_node(const BackwardCall& call, int node) {
  at(chunks_, call.chunk).backward_node(call, node);
}

double TransformerStage::evaluate(int chunk, const Tensor& input, const Tensor& output,
                                  std::span<const std::int32_t> ids,
                                  std::span<const std::int32_t> targets,
                                  const DocumentRows& documents) {
  const Tensor loss = loss_.view(tensor::DType::f64, {1});
  *loss.as<double>() = 0;
  pack_if_stale();
  streams_.forward_waits();
  at(chunks_, chunk)
      .evaluate({.input = input,
                 .output = output,
                 .ids = ids,
                 .targets = targets,
                 .documents = documents,
                 .loss = loss});
  streams_.synchronize();
  return *loss.as<double>();
}

void TransformerStage::synchronize() {
  if (spec_.training && !spec_.state.gradients)
    for (Chunk& chunk : chunks_) chunk.complete_gradients();
  streams_.synchronize();
  router_loads_.read(streams_.forward(), chunks_);
}

double TransformerStage::collective_wait_s() const {
  double seconds = 0;
  for (const Chunk& chunk : chunks_) seconds += chunk.collective_wait_s();
  return seconds;
}

std::unique_ptr<tensor::Work> TransformerStage::sum_over_shards(tensor::Stream& stream,
                                                                const ParameterRange& parameters,
                                                                Sharers sharers) {
  const bool by_head = sharers == Sharers::kv_head;
  tensor::ProcessGroup* const group = by_head ? kv_head_group_ : gradient_group_;
  if (!group) return nullptr;
  const auto is_part = [&](const ParameterInfo& info) {
    return by_head ? info.split == Split::kv_rows : sums_gradient(info, spec_.sharding);
  };
  shared_gradients_.clear();
  for (auto i = static_cast<std::size_t>(parameters.first); std::cmp_less(i, parameters.end); ++i)
    if (is_part(parameters_.layout().entries[i].info) && parameters_.all()[i].gradient)
      shared_gradients_.push_back(parameters_.all()[i].gradient);
  if (shared_gradients_.empty()) return nullptr;
  return group->all_reduce_many(stream, shared_gradients_);
}

void TransformerStage::squared_norms(std::span<double> out) const {
  squares_.sum(streams_.backward(),
               {.first = 0, .end = static_cast<int>(squares_.pieces().size())});
  streams_.backward().synchronize();
  squares_.add_up(out);
}

void TransformerStage::apply(const tensor::AdamWStep& step) {
  if (spec_.keep_previous) parameters_.save_in_place(streams_.backward());
  const auto now = parameters_.all(), next = parameters_.next();
  updates_.clear();
  for (std::size_t i = 0; i < now.size(); ++i) {
    const Parameter& parameter = now[i];
    if (parameter.update.frozen) continue;
    const tensor::AdamWStep own_step = step_of(parameter.update, step);
    const Tensor& weight = parameter.kept_weight;
    if (weight.num_elements() > 0)
      updates_.push_back({own_step, parameter.kept_gradient, weight, parameter.exp_avg,
                          parameter.exp_avg_sq, weight, next[i].exp_avg, next[i].exp_avg_sq,
                          packed_copies_.empty() ? Tensor{} : packed_copies_[i]});
    if (parameter.twin_slice >= 0) add_update_of_twin(parameter, own_step);
  }
  // All at once, because a small parameter alone occupies a GPU for as long as a launch takes.
  ops_.adamw(streams_.backward(), updates_);
  streams_.synchronize();
  if (spec_.keep_previous) parameters_.swap_moments();
  has_previous_ = spec_.keep_previous;
  updated() = packed_copies_.empty();
}

/// Of the slice that is kept for another replica.
void TransformerStage::add_update_of_twin(const Parameter& parameter,
                                          const tensor::AdamWStep& step) {
  const Tensor& weight = parameter.twin_weight;
  if (weight.num_elements() == 0) return;
  updates_.push_back({step, parameter.twin_gradient, weight, parameter.twin_exp_avg,
                      parameter.twin_exp_avg_sq, weight, parameter.twin_exp_avg,
                      parameter.twin_exp_avg_sq});
}

void TransformerStage::step_back() {
  TROUPE_ASSERT(has_previous_);
  streams_.synchronize();
  parameters_.restore_in_place(streams_.backward());
  streams_.synchronize();
  parameters_.swap_moments();
  weights_changed();
}

void TransformerStage::weights_changed() {
  packed_is_stale_ = true;
  has_previous_ = false;
}

}  // namespace

void plan_state(const StageSpec& spec, const ParameterLayout& layout, StageMemory& memory) {
  const auto bytes_of = [](std::int64_t elements) {
    return elements * static_cast<std::int64_t>(sizeof(float));
  };
  const StateSharding& state = spec.state;
  const std::int64_t weights = state.weights ? layout.head_use_begin : layout.size;
  memory.weights = bytes_of(weights + layout.apart);
  memory.gathered = bytes_of(layout.forward_slots.size + layout.backward_slots.size);
  if (!spec.training) return;
  memory.gradients = bytes_of(state.gradients ? layout.kept_size : layout.size + layout.tied_size);
  memory.buckets = bytes_of(layout.gradient_slots.size);
  const std::int64_t previous =
      spec.keep_previous ? weights + 2 * layout.moments + 2 * layout.twin_moments : 0;
  memory.optimizer = bytes_of(2 * layout.moments + 2 * layout.twin_moments + previous);
}

StageMemory plan_memory(const StageSpec& spec, Device& device) {
  const Streams streams(device);
  const Layers layers = make_layers(spec, device, {streams, nullptr}, {streams, nullptr});
  StageMemory memory;
  const ParameterLayout layout = lay_out_parameters(spec);
  plan_state(spec, layout, memory);
  memory.activations =
      static_cast<std::int64_t>(activation_bytes(spec, layers) + sizeof(double) +
                                RouterLoads::bytes(spec, layers.block.load_size())) +
      (spec.training ? GradientSquares::bytes(layout.pieces.size()) : 0);
  memory.packed = static_cast<std::int64_t>(packed_bytes(spec, layers));
  return memory;
}

std::unique_ptr<Stage> make_transformer_stage(const StageSpec& spec, Device& device) {
  TROUPE_ASSERT(check_model(spec.model).empty());
  TROUPE_ASSERT(!(spec.training && spec.model.value_head));
  TROUPE_ASSERT(!traits_of(spec.model.kind).learns_positions ||
                spec.seq_len <= spec.model.max_position_embeddings);
  TROUPE_ASSERT(!spec.chunks.empty() && spec.micro >= 1 && spec.seq_len >= 1);
  for (const ChunkSpec& chunk : spec.chunks) TROUPE_ASSERT(chunk.first_layer <= chunk.end_layer);
  return std::make_unique<TransformerStage>(spec, device);
}

}  // namespace troupe::stages
