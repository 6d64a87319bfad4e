#include "stages/decoder/layers/sublayer_products.h"

#include <algorithm>

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
                                   const tensor::LinearShape& like, std::int64_t inner,
                                   std::int64_t hidden)
    : norm(spec.model, LayerShape(spec).S, spec.model.hidden_size, device),
      in(linear<tensor::ColumnParallelLinear>(spec, device, like, spec.model.hidden_size,
                                              spec.parallel.size * inner)),
      out(linear<tensor::RowParallelLinear>(spec, device, like, spec.parallel.size * hidden,
                                            spec.model.hidden_size)) {}

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
  const tensor::ScratchBytes first = in->scratch_bytes(), last = out->scratch_bytes();
  return {.forward = std::max(first.forward, last.forward),
          .backward = std::max(first.backward, last.backward)};
}

void SublayerProducts::set_scratch(const tensor::Scratch& scratch) const {
  in->set_scratch(scratch);
  out->set_scratch(scratch);
}

}  // namespace troupe::stages
