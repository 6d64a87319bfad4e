#include "stages/decoder/layers/adapter_product.h"

#include <algorithm>

#include "stages/model/adapter.h"
#include "tensor/errors/error.h"
#include "tensor/parallel/division.h"

namespace troupe::stages {

using tensor::DType;
using tensor::Tensor;

namespace {

std::unique_ptr<tensor::Linear> make_linear(tensor::Device& device, tensor::LinearShape shape,
                                            std::int64_t in, std::int64_t out) {
  shape.in = in;
  shape.out = out;
  return device.make_linear(shape);
}

}  // namespace

std::optional<AdapterForm> adapter_form(const ModelConfig& model, const Sharding& sharding,
                                        Module module, Field weight) {
  if (!model.adapter) return std::nullopt;
  const bool is_first = weight == Field::weight;
  const Field a = is_first ? Field::lora_a : Field::out_lora_a;
  const Field b = is_first ? Field::lora_b : Field::out_lora_b;
  AdapterForm form{.parts = {},
                   .rank = model.adapter->rank,
                   .scale = static_cast<float>(model.adapter->scale())};
  std::vector<std::int64_t> first_output;  // of each of the product's weights
  std::vector<int> first_part;             // of each target
  std::int64_t row = 0;
  std::optional<int> layer;
  for (const ParameterInfo& info : parameters_of(model)) {
    const bool is_of_product = info.field == weight || info.field == a || info.field == b;
    if (info.module != module || !is_of_product || info.layer != layer.value_or(info.layer))
      continue;
    layer = info.layer;
    const tensor::Shape shape = local_shape(info, model, sharding);
    if (info.field == weight) {
      first_output.push_back(form.out);
      form.out += shape[0];
      form.in = shape[1];
    } else if (info.field == a) {
      first_part.push_back(info.part);
      form.low += form.rank;
    } else {
      const auto target = std::ranges::upper_bound(first_part, info.part) - first_part.begin() - 1;
      form.parts.push_back({.first_output = first_output[static_cast<std::size_t>(info.part)],
                            .rows = shape[0],
                            .first_row = row,
                            .first_column = target * form.rank});
      row += shape[0];
    }
  }
  if (form.parts.empty()) return std::nullopt;
  return form;
}

AdapterProduct::AdapterProduct(const AdapterForm& form, tensor::Device& device,
                               const tensor::LinearShape& like)
    : form_(form),
      rows_(like.rows),
      dtype_(like.dtype),
      ops_(device.ops()),
      a_(make_linear(device, like, form.in, form.low)),
      b_(make_linear(device, like, form.low, form.out)) {}

Tensor AdapterProduct::lay_out_low(Arena& arena) const {
  return arena.take(dtype_, {rows_, form_.low});
}

PackedAdapter AdapterProduct::lay_out_packed(Arena& arena) const {
  return {.a = arena.take_bytes(a_->packed_bytes()), .b = arena.take_bytes(b_->packed_bytes())};
}

/// The products of A and of B work in what they share, in turn.
AdapterProduct::Memory AdapterProduct::lay_out(Arena& arena, bool is_forward) const {
  const tensor::ScratchBytes a = a_->scratch_bytes(), b = b_->scratch_bytes();
  arena.take_bytes(is_forward ? std::max(a.forward, b.forward) : std::max(a.backward, b.backward));
  Memory memory;
  if (is_forward) memory.base = arena.take(dtype_, {rows_, form_.out}).data;
  memory.dropped = arena.take(dtype_, {rows_, form_.in}).data;
  if (!form_.is_whole()) memory.whole = arena.take(DType::f32, {2 * form_.out, form_.low}).data;
  return memory;
}

tensor::ScratchBytes AdapterProduct::scratch_bytes() const {
  Arena forward, backward;
  lay_out(forward, true);
  lay_out(backward, false);
  return {.forward = forward.bytes(), .backward = backward.bytes()};
}

void AdapterProduct::set_scratch(const tensor::Scratch& scratch) {
  for (tensor::Linear* linear : {a_.get(), b_.get()}) linear->set_scratch(scratch);
  Arena forward(scratch.forward), backward(scratch.backward);
  forward_ = lay_out(forward, true);
  if (scratch.backward) backward_ = lay_out(backward, false);
}

void AdapterProduct::pack(tensor::Stream& stream, const AdapterParameters& master,
                          const PackedAdapter& packed) const {
  a_->pack(stream, master.a, packed.a);
  if (form_.is_whole()) return b_->pack(stream, master.b, packed.b);
  const Tensor whole{forward_.whole, DType::f32, {form_.out, form_.low}};
  ops_.fill_zero(stream, whole);
  for (const AdapterForm::Part& part : form_.parts)
    ops_.copy_columns(stream, tensor::row_view(master.b, part.first_row, part.rows), 0,
                      tensor::row_view(whole, part.first_output, part.rows), part.first_column,
                      form_.rank);
  b_->pack(stream, whole, packed.b);
}

Tensor AdapterProduct::base_of(const Tensor& y) const {
  return {forward_.base, y.dtype, y.shape};
}

Tensor AdapterProduct::dropped(tensor::Stream& stream, const HiddenDropout& dropout,
                               const Tensor& x, void* memory) const {
  if (!dropout.drops()) return x;
  const Tensor left{memory, x.dtype, x.shape};
  dropout.apply(ops_, stream, x, left);
  return left;
}

void AdapterProduct::forward_low(tensor::Stream& stream, const PackedAdapter& packed,
                                 const HiddenDropout& dropout, const Tensor& x,
                                 const Tensor& low) const {
  a_->forward(stream, dropped(stream, dropout, x, forward_.dropped), packed.a, low);
  if (form_.scale != 1) ops_.scale(stream, low, form_.scale, low);
}

void AdapterProduct::add_forward(tensor::Stream& stream, const PackedAdapter& packed,
                                 const HiddenDropout& dropout, const Tensor& x, const Tensor& low,
                                 const Tensor& y) const {
  forward_low(stream, packed, dropout, x, low);
  b_->forward(stream, low, packed.b, y, base_of(y));
}

void AdapterProduct::add_input_gradient(tensor::Stream& stream, const PackedAdapter& packed,
                                        const HiddenDropout& dropout, const Tensor& dy,
                                        const Tensor& dlow, const Tensor& dx) const {
  b_->input_gradient(stream, dy, packed.b, dlow);
  if (form_.scale != 1) ops_.scale(stream, dlow, form_.scale, dlow);
  const Tensor more{backward_.dropped, dx.dtype, dx.shape};
  a_->input_gradient(stream, dlow, packed.a, more);
  if (dropout.drops())
    dropout.apply(ops_, stream, more, dx, dx);
  else
    ops_.accumulate(stream, more, dx);
}

void AdapterProduct::weight_gradient(tensor::Stream& stream, const HiddenDropout& dropout,
                                     const Tensor& dy, const Tensor& x, const Tensor& low,
                                     const Tensor& dlow, const AdapterParameters& gradients,
                                     tensor::Gradient which) const {
  a_->weight_gradient(stream, dlow, dropped(stream, dropout, x, backward_.dropped), gradients.a,
                      which);
  if (form_.is_whole()) return b_->weight_gradient(stream, dy, low, gradients.b, which);
  const Tensor whole{backward_.whole, DType::f32, {form_.out, form_.low}};
  b_->weight_gradient(stream, dy, low, whole, tensor::Gradient::first);
  give_parts(stream, whole, gradients.b, which);
}

/// Of the product of all outputs with all of A's result, B has some blocks.
void AdapterProduct::give_parts(tensor::Stream& stream, const Tensor& whole, const Tensor& b,
                                tensor::Gradient which) const {
  float* const behind = whole.as<float>() + whole.num_elements();
  for (const AdapterForm::Part& part : form_.parts) {
    const Tensor rows = tensor::row_view(whole, part.first_output, part.rows);
    const Tensor sum = tensor::row_view(b, part.first_row, part.rows);
    const bool is_first = which == tensor::Gradient::first;
    const Tensor block = is_first ? sum : Tensor{behind, DType::f32, sum.shape};
    ops_.copy_columns(stream, rows, part.first_column, block, 0, form_.rank);
    if (!is_first) ops_.accumulate(stream, block, sum);
  }
}

}  // namespace troupe::stages
