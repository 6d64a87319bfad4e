#include "stages/decoder/layers/head_norms.h"

#include "stages/decoder/layers/norm.h"

namespace troupe::stages {

using tensor::HeadColumns;
using tensor::Tensor;

namespace {

HeadColumns columns_of(HeadNorm norm, std::int64_t first, std::int64_t heads, std::int64_t dim) {
  if (norm == HeadNorm::whole_width) return {.first = first, .heads = 1, .dim = heads * dim};
  return {.first = first, .heads = heads, .dim = dim};
}

/// The numbers of queries, or of keys, one to a token.
Tensor half_of(const Tensor& both, int which) {
  if (!both) return both;
  const std::int64_t tokens = both.num_elements() / 2;
  return {both.as<float>() + which * tokens, both.dtype, {tokens}};
}

}  // namespace

HeadNorms::HeadNorms(const LayerSpec& spec, tensor::Device& device)
    : shape_(spec),
      form_(sublayer_form(spec.model, spec.parallel.size)),
      shards_(spec.parallel.size),
      queries_(columns_of(form_.head_norm, 0, shape_.heads, spec.model.head_dim)),
      keys_(columns_of(form_.head_norm, shape_.A, shape_.kv_heads, spec.model.head_dim)),
      eps_(static_cast<float>(spec.model.rms_norm_eps)),
      plus_(weight_offset(spec.model)),
      ops_(device.ops()) {}

std::int64_t HeadNorms::width(const HeadColumns& columns) const {
  return sums_heads() ? shards_ * columns.count() : 0;
}

void HeadNorms::sum_squares(tensor::Stream& stream, const Tensor& raw,
                            const Tensor& squares) const {
  if (!sums_heads()) return;
  ops_.head_squares(stream, raw, queries_, half_of(squares, 0));
  ops_.head_squares(stream, raw, keys_, half_of(squares, 1));
}

void HeadNorms::forward(tensor::Stream& stream, const Tensor& query_weight,
                        const Tensor& key_weight, const Tensor& raw, const Tensor& squares,
                        const Tensor& inner) const {
  ops_.head_norm(stream, raw, queries_, query_weight, eps_, plus_, inner, half_of(squares, 0),
                 width(queries_));
  ops_.head_norm(stream, raw, keys_, key_weight, eps_, plus_, inner, half_of(squares, 1),
                 width(keys_));
  if (inner.data == raw.data) return;
  const std::int64_t values = keys_.first + keys_.count();
  ops_.copy_columns(stream, raw, values, inner, values, keys_.count());
}

void HeadNorms::sum_dots(tensor::Stream& stream, const Backward& call) const {
  if (!sums_heads()) return;
  ops_.head_dots(stream, call.dinner, call.raw, queries_, call.query_weight, plus_,
                 half_of(call.dots, 0));
  ops_.head_dots(stream, call.dinner, call.raw, keys_, call.key_weight, plus_,
                 half_of(call.dots, 1));
}

void HeadNorms::backward(tensor::Stream& stream, const Backward& call, const Tensor& dquery_weight,
                         const Tensor& dkey_weight) const {
  const auto& [raw, squares, query_weight, key_weight, dots, dinner] = call;
  ops_.head_norm_backward(stream, dinner, raw, queries_, query_weight, eps_, plus_, dinner,
                          dquery_weight, half_of(squares, 0),
                          sums_heads() ? half_of(dots, 0) : Tensor{}, width(queries_));
  ops_.head_norm_backward(stream, dinner, raw, keys_, key_weight, eps_, plus_, dinner, dkey_weight,
                          half_of(squares, 1), sums_heads() ? half_of(dots, 1) : Tensor{},
                          width(keys_));
}

}  // namespace troupe::stages
