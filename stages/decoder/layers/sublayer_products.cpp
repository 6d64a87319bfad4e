#include "stages/decoder/layers/sublayer_products.h"

namespace troupe::stages {
namespace {

/// A layer before it is divided.
template <typename ParallelLinear>
std::unique_ptr<ParallelLinear> linear(const LayerSpec& spec, tensor::Device& device,
                                       tensor::LinearShape whole, std::int64_t in,
                                       std::int64_t out) {
  whole.in = in;
  whole.out = out;
  return std::make_unique<ParallelLinear>(device, whole, spec.parallel);
}

}  // namespace

SublayerProducts::SublayerProducts(const LayerSpec& spec, tensor::Device& device,
                                   const tensor::LinearShape& like, std::int64_t inner_width,
                                   std::int64_t hidden_width)
    : form(sublayer_form(spec.model, spec.parallel.size)),
      norm(spec.model, LayerShape(spec).S, spec.model.hidden_size, device, form.has_norm),
      end_norm(spec.model, LayerShape(spec).S, spec.model.hidden_size, device, form.has_end_norm),
      in(linear<tensor::ColumnParallelLinear>(spec, device, like, spec.model.hidden_size,
                                              spec.parallel.size * inner_width)),
      out(linear<tensor::RowParallelLinear>(spec, device, like, spec.parallel.size * hidden_width,
                                            spec.model.hidden_size)),
      inner(inner_width) {}

PackedSublayer SublayerProducts::lay_out_packed(Arena& arena) const {
  return {.in = arena.take_bytes(in->packed_bytes()), .out = arena.take_bytes(out->packed_bytes())};
}

void SublayerProducts::pack(tensor::Stream& stream, const SublayerWeights& weights) const {
  in->pack(stream, weights.master.in.weight, weights.packed.in);
  out->pack(stream, weights.master.out.weight, weights.packed.out);
}

std::array<PackedCopy, 2> SublayerProducts::packed_copies(const SublayerWeights& weights) const {
  return {PackedCopy{weights.master.in.weight, in->packed_copy(weights.packed.in)},
          {weights.master.out.weight, out->packed_copy(weights.packed.out)}};
}

tensor::ScratchBytes SublayerProducts::scratch_bytes() const {
  return larger(in->scratch_bytes(), out->scratch_bytes());
}

void SublayerProducts::set_scratch(const tensor::Scratch& scratch) const {
  in->set_scratch(scratch);
  out->set_scratch(scratch);
}

BlockProducts::BlockProducts(const LayerSpec& spec, tensor::Device& device,
                             const tensor::LinearShape& like)
    : BranchPair{SublayerProducts(spec, device, like, LayerShape(spec).Q, LayerShape(spec).A),
                 SublayerProducts(spec, device, like, LayerShape(spec).H, LayerShape(spec).F)} {}

PackedBlock BlockProducts::lay_out_packed(Arena& arena) const {
  return {.attention = attention.lay_out_packed(arena),
          .feed_forward = feed_forward.lay_out_packed(arena)};
}

void BlockProducts::pack(tensor::Stream& stream, const BlockWeights& weights) const {
  attention.pack(stream, weights.attention);
  feed_forward.pack(stream, weights.feed_forward);
}

void BlockProducts::add_packed_copies(const BlockWeights& weights,
                                      std::vector<PackedCopy>& copies) const {
  for (const Branch branch : {Branch::attention, Branch::feed_forward})
    for (const PackedCopy& matrix : (*this)[branch].packed_copies(weights[branch]))
      copies.push_back(matrix);
}

tensor::ScratchBytes BlockProducts::scratch_bytes() const {
  return larger(attention.scratch_bytes(), feed_forward.scratch_bytes());
}

void BlockProducts::set_scratch(const tensor::Scratch& scratch) const {
  attention.set_scratch(scratch);
  feed_forward.set_scratch(scratch);
}

}  // namespace troupe::stages
