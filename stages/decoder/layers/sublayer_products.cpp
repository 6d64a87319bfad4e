#include "stages/decoder/layers/sublayer_products.h"

namespace troupe::stages {
namespace {

/// A layer before it is divided.
template <typename ParallelLinear>
std::unique_ptr<ParallelLinear> linear(const LayerSpec& spec, tensor::Device& device,
                                       tensor::LinearShape whole, std::int64_t in,
                                       std::int64_t out) {
  if (in == 0 || out == 0) return nullptr;
  whole.in = in;
  whole.out = out;
  return std::make_unique<ParallelLinear>(device, whole, spec.parallel);
}

/// What an adapter adds to a product of the module; null if it has none.
std::unique_ptr<AdapterProduct> adapter(const LayerSpec& spec, tensor::Device& device,
                                        Module module, const tensor::LinearShape& like,
                                        Field weight) {
  const auto& [size, shard, sequence_parallel, groups] = spec.parallel;
  const auto form = adapter_form(spec.model, {.size = size, .shard = shard}, module, weight);
  return form ? std::make_unique<AdapterProduct>(*form, device, like) : nullptr;
}

}  // namespace

SublayerProducts::SublayerProducts(const LayerSpec& spec, tensor::Device& device, Module module,
                                   const tensor::LinearShape& like, std::int64_t inner_width,
                                   std::int64_t hidden_width)
    : form(sublayer_form(spec.model, spec.parallel.size)),
      norm(spec.model, LayerShape(spec).S, spec.model.hidden_size, device, form.has_norm),
      end_norm(spec.model, LayerShape(spec).S, spec.model.hidden_size, device, form.has_end_norm),
      in(linear<tensor::ColumnParallelLinear>(spec, device, like, spec.model.hidden_size,
                                              spec.parallel.size * inner_width)),
      out(linear<tensor::RowParallelLinear>(spec, device, like, spec.parallel.size * hidden_width,
                                            spec.model.hidden_size)),
      routed(module == Module::feed_forward && spec.model.experts.count > 0
                 ? std::make_unique<RoutedExperts>(spec, device, like)
                 : nullptr),
      in_adapter(adapter(spec, device, module, like, Field::weight)),
      out_adapter(adapter(spec, device, module, like, Field::out_weight)),
      inner(inner_width) {}

PackedSublayer SublayerProducts::lay_out_packed(Arena& arena, Arena* experts) const {
  if (experts) return routed->lay_out_packed(arena, *experts);
  PackedSublayer packed{.in = arena.take_bytes(in->packed_bytes()),
                        .out = arena.take_bytes(out->packed_bytes())};
  if (in_adapter) packed.in_adapter = in_adapter->lay_out_packed(arena);
  if (out_adapter) packed.out_adapter = out_adapter->lay_out_packed(arena);
  return packed;
}

void SublayerProducts::pack(tensor::Stream& stream, const SublayerWeights& weights,
                            LayerPart part) const {
  if (weights.master.router) return routed->pack(stream, weights, part);
  if (part == LayerPart::experts) return;
  in->pack(stream, weights.master.in.weight, weights.packed.in);
  out->pack(stream, weights.master.out.weight, weights.packed.out);
  pack_adapters(stream, weights);
}

void SublayerProducts::pack_adapters(tensor::Stream& stream, const SublayerWeights& weights) const {
  const auto& [master, packed, attention] = weights;
  if (in_adapter) in_adapter->pack(stream, master.in_adapter, packed.in_adapter);
  if (out_adapter) out_adapter->pack(stream, master.out_adapter, packed.out_adapter);
}

void SublayerProducts::add_packed_copies(const SublayerWeights& weights,
                                         std::vector<PackedCopy>& copies) const {
  if (weights.master.router) return routed->add_packed_copies(weights, copies);
  copies.push_back({weights.master.in.weight, in->packed_copy(weights.packed.in)});
  copies.push_back({weights.master.out.weight, out->packed_copy(weights.packed.out)});
}

tensor::ScratchBytes SublayerProducts::bytes_of_products() const {
  tensor::ScratchBytes bytes;
  if (in) bytes = larger(in->scratch_bytes(), out->scratch_bytes());
  return routed ? larger(bytes, routed->scratch_bytes()) : bytes;
}

tensor::ScratchBytes SublayerProducts::scratch_bytes() const {
  tensor::ScratchBytes bytes = bytes_of_products();
  const std::size_t forward = Arena::whole(bytes.forward), backward = Arena::whole(bytes.backward);
  // What adapters have there outlasts the products between which they come.
  for (const auto& adapter : {in_adapter.get(), out_adapter.get()})
    if (adapter) {
      const auto [more_forward, more_backward] = adapter->scratch_bytes();
      bytes =
          larger(bytes, {.forward = forward + more_forward, .backward = backward + more_backward});
    }
  return bytes;
}

void SublayerProducts::set_scratch(const tensor::Scratch& scratch) const {
  if (in) in->set_scratch(scratch);
  if (out) out->set_scratch(scratch);
  if (routed) routed->set_scratch(scratch);
  const tensor::ScratchBytes products = bytes_of_products();
  const auto behind = [](void* memory, std::size_t bytes) -> void* {
    return memory ? static_cast<std::byte*>(memory) + Arena::whole(bytes) : nullptr;
  };
  for (const auto& adapter : {in_adapter.get(), out_adapter.get()})
    if (adapter)
      adapter->set_scratch({.forward = behind(scratch.forward, products.forward),
                            .backward = behind(scratch.backward, products.backward)});
}

BlockProducts::BlockProducts(const LayerSpec& spec, tensor::Device& device,
                             const tensor::LinearShape& like)
    : BranchPair{SublayerProducts(spec, device, Module::attention, like, LayerShape(spec).Q,
                                  LayerShape(spec).A),
                 SublayerProducts(spec, device, Module::feed_forward, like, LayerShape(spec).H,
                                  LayerShape(spec).F)} {}

PackedBlock BlockProducts::lay_out_packed(Arena& arena, Arena* experts) const {
  return {.attention = attention.lay_out_packed(arena),
          .feed_forward = feed_forward.lay_out_packed(arena, experts)};
}

void BlockProducts::pack(tensor::Stream& stream, const BlockWeights& weights,
                         LayerPart part) const {
  attention.pack(stream, weights.attention, part);
  feed_forward.pack(stream, weights.feed_forward, part);
}

void BlockProducts::pack_adapters(tensor::Stream& stream, const BlockWeights& weights) const {
  attention.pack_adapters(stream, weights.attention);
  feed_forward.pack_adapters(stream, weights.feed_forward);
}

void BlockProducts::add_packed_copies(const BlockWeights& weights,
                                      std::vector<PackedCopy>& copies) const {
  for (const Branch branch : {Branch::attention, Branch::feed_forward})
    (*this)[branch].add_packed_copies(weights[branch], copies);
}

tensor::ScratchBytes BlockProducts::scratch_bytes() const {
  return larger(attention.scratch_bytes(), feed_forward.scratch_bytes());
}

void BlockProducts::set_scratch(const tensor::Scratch& scratch) const {
  attention.set_scratch(scratch);
  feed_forward.set_scratch(scratch);
}

}  // namespace troupe::stages
