#include "stages/decoder/layers/routed_experts.h"

#include <fmt/format.h>

#include "tensor/device/device.h"
#include "tensor/errors/error.h"

namespace troupe::stages {

using tensor::DType;
using tensor::Tensor;

namespace {

/// The products of all experts of the shard, for as many rows as there can be.
std::unique_ptr<tensor::GroupedLinear> grouped(tensor::Device& device, const LayerShape& shape,
                                               const tensor::LinearShape& like, std::int64_t in,
                                               std::int64_t out) {
  return device.make_grouped_linear({.groups = shape.own_experts,
                                     .each = {.rows = shape.X,
                                              .in = in,
                                              .out = out,
                                              .dtype = like.dtype,
                                              .output_dtype = like.output_dtype,
                                              .gradients = like.gradients}});
}

tensor::LinearShape router_product(const LayerShape& shape, tensor::LinearShape like) {
  if (like.row_step > 0) like.row_step = like.row_step * shape.N / shape.T;
  if (shape.N != shape.T) like.rows = shape.N;
  like.in = shape.C;
  like.out = shape.E;
  like.dtype = like.output_dtype = DType::f32;
  return like;
}

Tensor first(const Tensor& x, std::int64_t count) {
  return {x.data, x.dtype, {count}};
}

}  // namespace

RoutedExperts::RoutedExperts(const LayerSpec& spec, tensor::Device& device,
                             const tensor::LinearShape& like)
    : shape_(spec),
      router_shape_{
          .experts = shape_.E, .chosen = shape_.K, .normalizes = spec.model.experts.normalizes},
      has_z_loss_(spec.model.experts.z_loss_coef > 0),
      is_training_(like.gradients),
      is_whole_(spec.whole_experts),
      parallel_(spec.parallel),
      share_(static_cast<float>(static_cast<double>(spec.micro) /
                                static_cast<double>(spec.global_samples))),
      ops_(device.ops()),
      router_(device.make_linear(router_product(shape_, like))),
      in_(grouped(device, shape_, like, shape_.C, 2 * shape_.M)),
      out_(grouped(device, shape_, like, shape_.M, shape_.C)),
      exchange_(spec.experts.size > 1 ? std::make_unique<ExpertExchange>(spec, device) : nullptr),
      capacity_(spec.model.experts.capacity),
      host_(capacity_ > 0 && is_training_ ? std::make_unique<tensor::HostCopies>(device)
                                          : nullptr) {
  const double of_layer =
      spec.parallel.shard > 0 && !is_whole_
          ? 0
          : static_cast<double>(share_) / static_cast<double>(num_routed_layers(spec.model));
  balance_ = static_cast<float>(of_layer * spec.model.experts.aux_loss_coef *
                                static_cast<double>(shape_.E));
  z_ = static_cast<float>(2 * of_layer * spec.model.experts.z_loss_coef);
}

// --- memory

PackedSublayer RoutedExperts::lay_out_packed(Arena& arena, Arena& experts) const {
  return {.in = experts.take_bytes(in_->packed_bytes()),
          .out = experts.take_bytes(out_->packed_bytes()),
          .router = arena.take_bytes(router_->packed_bytes())};
}

void RoutedExperts::pack(tensor::Stream& stream, const SublayerWeights& weights,
                         LayerPart part) const {
  if (part != LayerPart::experts)
    router_->pack(stream, weights.master.router, weights.packed.router);
  if (part == LayerPart::others) return;
  in_->pack(stream, weights.master.in.weight, weights.packed.in);
  out_->pack(stream, weights.master.out.weight, weights.packed.out);
}

void RoutedExperts::add_packed_copies(const SublayerWeights& weights,
                                      std::vector<PackedCopy>& copies) const {
  copies.push_back({weights.master.router, router_->packed_copy(weights.packed.router)});
  copies.push_back({weights.master.in.weight, in_->packed_copy(weights.packed.in)});
  copies.push_back({weights.master.out.weight, out_->packed_copy(weights.packed.out)});
}

tensor::ScratchBytes RoutedExperts::scratch_bytes() const {
  const auto of = [](const auto& product) { return product->scratch_bytes(); };
  const auto larger = [](const tensor::ScratchBytes& a, const tensor::ScratchBytes& b) {
    return tensor::ScratchBytes{.forward = std::max(a.forward, b.forward),
                                .backward = std::max(a.backward, b.backward)};
  };
  return larger(of(router_), larger(of(in_), of(out_)));
}

void RoutedExperts::set_scratch(const tensor::Scratch& scratch) const {
  router_->set_scratch(scratch);
  in_->set_scratch(scratch);
  out_->set_scratch(scratch);
}

void RoutedExperts::lay_out(Arena& arena, const ActivationGroups& groups,
                            RoutedActivations& kept) const {
  const auto& [N, K] = std::pair(shape_.N, shape_.K);
  if (groups.outputs) kept.hidden = arena.take(shape_.dtype, {shape_.X, shape_.M});
  if (!groups.choice) return;
  RouterChoice& choice = kept.choice;
  choice.probs = lay_out_logits(arena);
  if (has_z_loss_) choice.lse = arena.take(DType::f32, {N});
  choice.chosen = arena.take(DType::i32, {N, K});
  choice.weights = arena.take(DType::f32, {N, K});
  choice.offsets = arena.take(DType::i32, {shape_.E + 1});
  choice.row_of = arena.take(DType::i32, {N, K});
  choice.token_of = arena.take(DType::i32, {shape_.R});
  choice.row_weights = arena.take(DType::f32, {shape_.R});
  if (exchange_) exchange_->lay_out(arena, kept.received);
  if (is_training_) choice.load = arena.take(DType::f32, {load_size()});
}

Tensor RoutedExperts::lay_out_inner(Arena& arena) const {
  return arena.take(shape_.dtype, {shape_.X, 2 * shape_.M});
}

Tensor RoutedExperts::lay_out_logits(Arena& arena) const {
  return arena.take(DType::f32, {shape_.N, shape_.E});
}

RoutedScratch RoutedExperts::lay_out_scratch(Arena& arena) const {
  RoutedScratch scratch{.rows = arena.take(shape_.dtype, {shape_.R, shape_.C}),
                        .results = arena.take(shape_.dtype, {shape_.R, shape_.C})};
  if (exchange_) exchange_->lay_out_scratch(arena, scratch);
  if (shape_.dtype != DType::f32) scratch.wide = arena.take(DType::f32, {shape_.N, shape_.C});
  scratch.logits = lay_out_logits(arena);
  if (is_whole_) scratch.zeros = arena.take(DType::f32, {shape_.E});
  return scratch;
}

RoutedScratch RoutedExperts::lay_out_backward_scratch(Arena& arena) const {
  RoutedScratch scratch = lay_out_scratch(arena);
  scratch.dhidden = arena.take(shape_.dtype, {shape_.X, shape_.M});
  scratch.drow_weights = arena.take(DType::f32, {shape_.X});
  scratch.dweights = arena.take(DType::f32, {shape_.N, shape_.K});
  scratch.balance = arena.take(DType::f32, {shape_.E});
  return scratch;
}

void RoutedExperts::use_tokens(std::int64_t all_tokens, RoutedActivations& kept) const {
  const std::int64_t tokens = routed_tokens(all_tokens);
  RouterChoice& choice = kept.choice;
  for (Tensor* x : {&choice.probs, &choice.lse, &choice.chosen, &choice.weights, &choice.row_of})
    use_rows(*x, tokens);
  for (Tensor* x : {&choice.token_of, &choice.row_weights}) use_rows(*x, tokens * shape_.K);
  if (exchange_) return;
  for (Tensor* x : {&kept.inner, &kept.hidden}) use_rows(*x, tokens * shape_.K);
}

void RoutedExperts::use_tokens(std::int64_t all_tokens, RoutedScratch& scratch) const {
  const std::int64_t tokens = routed_tokens(all_tokens);
  for (Tensor* x : {&scratch.wide, &scratch.logits, &scratch.dweights}) use_rows(*x, tokens);
  for (Tensor* x : {&scratch.rows, &scratch.results}) use_rows(*x, tokens * shape_.K);
  if (exchange_) return;
  for (Tensor* x : {&scratch.dhidden, &scratch.drow_weights}) use_rows(*x, tokens * shape_.K);
}

// --- forward

const Tensor& RoutedExperts::widened(tensor::Stream& stream, const Tensor& x,
                                     const Tensor& memory) const {
  if (x.dtype == DType::f32) return x;
  ops_.copy(stream, x, memory);
  return memory;
}

void RoutedExperts::choose(tensor::Stream& stream, const SublayerWeights& weights, const Tensor& x,
                           const RoutedActivations& kept, const RoutedScratch& scratch) const {
  const RouterChoice& choice = kept.choice;
  router_->forward(stream, widened(stream, x, scratch.wide), weights.packed.router, scratch.logits);
  ops_.route(stream, scratch.logits, router_shape_, choice.probs, choice.chosen, choice.weights,
             choice.lse);
  ops_.sort_rows(stream, choice.chosen, choice.weights, choice.offsets, choice.row_of,
                 choice.token_of, choice.row_weights);
  if (kept.load_sum) count(stream, kept);
  if (host_) check_capacity(stream, choice);
}

void RoutedExperts::count(tensor::Stream& stream, const RoutedActivations& kept) const {
  const RouterChoice& choice = kept.choice;
  ops_.router_load(stream, choice.probs, choice.chosen, choice.lse, choice.counted, choice.load);
  if (is_whole_)
    ops_.scale(stream, choice.load,
               static_cast<float>(choice.num_own) / static_cast<float>(choice.num_counted),
               choice.load);
  else
    ops_.add_scaled(stream, choice.load, share_, kept.load_sum, kept.load_sum);
}

std::unique_ptr<tensor::Work> RoutedExperts::sum_load(tensor::Stream& stream,
                                                      const RoutedActivations& kept) const {
  if (!kept.load_sum) return nullptr;
  return parallel_.groups->forward->all_reduce(stream, kept.choice.load);
}

/// The product of both means is not the sum of the shards' products.
void RoutedExperts::add_load(tensor::Stream& stream, const RoutedActivations& kept,
                             const RoutedScratch& scratch) const {
  if (!kept.load_sum) return;
  auto* const load = kept.choice.load.as<float>();
  const auto part = [&](std::int64_t begin, const tensor::Shape& shape) {
    return Tensor{load + begin, DType::f32, shape};
  };
  const std::int64_t E = shape_.E;
  const Tensor balance = part(2 * E + 2, {1});
  ops_.fill_zero(stream, scratch.zeros);
  ops_.head_dots(stream, part(0, {1, E}), part(E, {1, E}), {.heads = 1, .dim = E}, scratch.zeros, 1,
                 balance);
  ops_.scale(stream, balance, static_cast<float>(E), balance);
  ops_.add_scaled(stream, kept.choice.load, share_, kept.load_sum, kept.load_sum);
}

void RoutedExperts::check_capacity(tensor::Stream& stream, const RouterChoice& choice) const {
  stream.synchronize();
  const auto* offsets = host_->on_host(choice.offsets).as<std::int32_t>();
  for (std::int64_t e = 0; e < shape_.E; ++e)
    if (const std::int64_t rows = offsets[e + 1] - offsets[e]; rows > capacity_)
      throw Error(ErrorKind::data,
                  fmt::format("expert {} of layer {} has {} tokens of a microbatch, more than "
                              "expert_capacity = {}; nearest: {}, or 0 for no bound",
                              e, choice.layer, rows, capacity_, rows));
}

RoutedExperts::Rows RoutedExperts::rows_of(const RoutedActivations& kept) const {
  if (!exchange_) return {kept.choice.offsets, kept.choice.row_weights, kept.inner, kept.hidden};
  const auto own = [&](const Tensor& x) { return ExpertExchange::in_use(x, kept.received); };
  return {kept.received.offsets, own(kept.received.weights), own(kept.inner), own(kept.hidden)};
}

void RoutedExperts::forward_product(tensor::Stream& stream, const SublayerWeights& weights,
                                    const Tensor& x, const RoutedActivations& kept,
                                    const RoutedScratch& scratch) const {
  ops_.gather_rows(stream, x, kept.choice.token_of, scratch.rows);
  in_->forward(stream, scratch.rows, kept.choice.offsets, weights.packed.in, kept.inner);
}

void RoutedExperts::forward_hidden(tensor::Stream& stream, const RoutedActivations& kept) const {
  const Rows own = rows_of(kept);
  ops_.weighted_swiglu(stream, own.inner, own.weights, own.hidden);
}

void RoutedExperts::forward_output(tensor::Stream& stream, const SublayerWeights& weights,
                                   const RoutedActivations& kept, const RoutedScratch& scratch,
                                   const Tensor& y, const Tensor& residual) const {
  out_->forward(stream, kept.hidden, kept.choice.offsets, weights.packed.out, scratch.results);
  ops_.sum_rows(stream, scratch.results, kept.choice.row_of, y, residual);
}

// --- backward

void RoutedExperts::hidden_gradient(tensor::Stream& stream, const SublayerWeights& weights,
                                    const Tensor& dy, const RoutedActivations& kept,
                                    const RoutedScratch& scratch) const {
  const RouterChoice& choice = kept.choice;
  ops_.gather_rows(stream, dy, choice.token_of, scratch.results);
  out_->input_gradient(stream, scratch.results, choice.offsets, weights.packed.out,
                       scratch.dhidden);
  ops_.weighted_swiglu_backward(stream, kept.inner, choice.row_weights, scratch.dhidden, kept.inner,
                                scratch.drow_weights);
}

tensor::RouterLosses RoutedExperts::losses(tensor::Stream& stream, const RouterChoice& choice,
                                           const RoutedScratch& scratch) const {
  const float of_token = 1 / static_cast<float>(choice.num_counted);
  tensor::RouterLosses losses{.counted = choice.counted};
  if (balance_ > 0) {
    ops_.scale(stream, first(choice.load, shape_.E), balance_ * of_token, scratch.balance);
    losses.balance = scratch.balance;
  }
  if (z_ > 0) {
    losses.lse = choice.lse;
    losses.z = z_ * of_token;
  }
  return losses;
}

void RoutedExperts::rows_gradient(tensor::Stream& stream, const SublayerWeights& weights,
                                  const RoutedActivations& kept,
                                  const RoutedScratch& scratch) const {
  in_->input_gradient(stream, kept.inner, kept.choice.offsets, weights.packed.in, scratch.rows);
}

void RoutedExperts::router_gradient(tensor::Stream& stream, const RoutedActivations& kept,
                                    const RoutedScratch& scratch, const Tensor& dlogits) const {
  const RouterChoice& choice = kept.choice;
  ops_.gather_rows(stream, column(first(scratch.drow_weights, choice.row_of.num_elements())),
                   flat(choice.row_of), column(scratch.dweights));
  ops_.route_backward(stream, choice.probs, choice.chosen, choice.weights, scratch.dweights,
                      router_shape_, losses(stream, choice, scratch), dlogits);
}

void RoutedExperts::input_gradient(tensor::Stream& stream, const SublayerWeights& weights,
                                   const RoutedActivations& kept, const RoutedScratch& scratch,
                                   const Tensor& dlogits, const Tensor& dx) const {
  const bool is_wide = dx.dtype == DType::f32;
  const Tensor& of_router = is_wide ? dx : scratch.wide;
  router_->input_gradient(stream, dlogits, weights.packed.router, of_router);
  if (!is_wide) ops_.copy(stream, of_router, dx);
  ops_.sum_rows(stream, scratch.rows, kept.choice.row_of, dx, dx);
}

void RoutedExperts::weight_gradient(tensor::Stream& stream, const WeightCall& call,
                                    const RoutedActivations& kept, const RoutedScratch& scratch,
                                    const SublayerParameters& gradients) const {
  const RouterChoice& choice = kept.choice;
  const Rows own = rows_of(kept);
  Tensor dresults = scratch.results, rows = scratch.rows;
  if (exchange_) {
    dresults = ExpertExchange::in_use(call.dresults, kept.received);
    rows = ExpertExchange::in_use(kept.received.rows, kept.received);
  } else {
    ops_.gather_rows(stream, call.dy, choice.token_of, dresults);
    ops_.gather_rows(stream, call.x, choice.token_of, rows);
  }
  out_->weight_gradient(stream, dresults, own.hidden, own.offsets, gradients.out.weight,
                        call.which);
  in_->weight_gradient(stream, own.inner, rows, own.offsets, gradients.in.weight, call.which);
  router_->weight_gradient(stream, call.dlogits, widened(stream, call.x, scratch.wide),
                           gradients.router, call.which);
}

}  // namespace troupe::stages
