#include "tests/bench/microbatch_products.h"

#include <vector>

#include "tensor/cpu/products/product.h"

namespace troupe::bench {
namespace {

using DataType = ProductList::DataType;
using Write = ProductList::Write;

/// Positions of a block of query rows in attention.
constexpr std::int64_t kBlockPositions = 64;

/// The type in which the factors of a model's products are fastest, for the same sums.
DataType factor_type(tensor::DType dtype) {
  const bool is_bf16 = dtype == tensor::DType::bf16 && !tensor::multiplies_bf16_as_f32();
  return is_bf16 ? DataType::bf16 : DataType::f32;
}

/// A weight [out, in] with its gradient, and the three products that use it.
struct LinearLayer {
  Matrices weight;
  Matrices gradient;

  LinearLayer(ProductList& list, DataType type, std::int64_t out, std::int64_t in)
      : weight(list.allocate(type, {out, in})), gradient(list.allocate(DataType::f32, {out, in})) {}
  void forward(ProductList& list, const Matrices& x, const Matrices& y) const {
    list.multiply_packed(x, weight.transposed(), y);
  }
  void input_gradient(ProductList& list, const Matrices& dy, const Matrices& dx) const {
    list.multiply_packed(dy, weight, dx);
  }
  void weight_gradient(ProductList& list, const Matrices& dy, const Matrices& x) const {
    list.multiply(dy.transposed(), x, gradient, Write::add);
  }
};

/// What a decoder layer keeps from forward to backward. q, k, v are batched by (sequence, key-value
/// head); the query heads that share a key-value head lie side by side at each position.
struct DecoderLayer {
  LinearLayer qkv, o, gate_up, down;
  Matrices normed, q, k, v, context, mid, ffn_normed, gate_up_out, ffn, out;
};

/// Buffers that all layers share.
struct Scratch {
  Matrices qkv, d_out, d_mid, d_normed, d_ffn, d_context, d_qkv;  // of a whole microbatch
  Matrices head_rows, d_k, d_v;                                   // by (sequence, key-value head)
  std::vector<Matrices> scores, probabilities, d_scores;          // by block
};

class Builder {
 public:
  Builder(ProductList& list, const Workload& workload)
      : list_(list),
        workload_(workload),
        model_(workload.model),
        type_(factor_type(model_.dtype)) {}

  void build();

 private:
  DecoderLayer make_layer();
  Scratch make_scratch();
  void forward(const DecoderLayer& layer, const Scratch& scratch);
  void backward(const DecoderLayer& layer, const Scratch& scratch);
  void attention_forward(const DecoderLayer& layer, const Scratch& scratch);
  void attention_backward(const DecoderLayer& layer, const Scratch& scratch);

  Matrices activation(std::int64_t width) {
    return list_.allocate(type_, {workload_.tokens(), width});
  }
  Matrices by_kv_head(std::int64_t rows, std::int64_t width, DataType type) {
    return list_.allocate(type, {workload_.micro * model_.num_key_value_heads, rows, width});
  }
  std::int64_t heads_width() const { return model_.num_attention_heads * model_.head_dim; }
  std::int64_t qkv_width() const {
    return heads_width() + 2 * model_.num_key_value_heads * model_.head_dim;
  }
  std::int64_t group() const { return model_.num_attention_heads / model_.num_key_value_heads; }
  std::int64_t num_blocks() const { return workload_.seq_len / kBlockPositions; }
  std::int64_t block_rows() const { return group() * kBlockPositions; }
  /// Number of keys that the rows of a block may see: the causal part, and the rest of the last
  /// block.
  static std::int64_t visible(std::int64_t block) { return (block + 1) * kBlockPositions; }

  ProductList& list_;
  const Workload& workload_;
  const stages::ModelConfig& model_;
  const DataType type_;
};

DecoderLayer Builder::make_layer() {
  const std::int64_t hidden = model_.hidden_size, ffn = model_.intermediate_size;
  const std::int64_t positions = workload_.seq_len, width = model_.head_dim;
  return {.qkv = {list_, type_, qkv_width(), hidden},
          .o = {list_, type_, hidden, heads_width()},
          .gate_up = {list_, type_, 2 * ffn, hidden},
          .down = {list_, type_, hidden, ffn},
          .normed = activation(hidden),
          .q = by_kv_head(group() * positions, width, type_),
          .k = by_kv_head(positions, width, type_),
          .v = by_kv_head(positions, width, type_),
          .context = activation(heads_width()),
          .mid = activation(hidden),
          .ffn_normed = activation(hidden),
          .gate_up_out = activation(2 * ffn),
          .ffn = activation(ffn),
          .out = activation(hidden)};
}

Scratch Builder::make_scratch() {
  const std::int64_t positions = workload_.seq_len, width = model_.head_dim;
  Scratch scratch{.qkv = activation(qkv_width()),
                  .d_out = activation(model_.hidden_size),
                  .d_mid = activation(model_.hidden_size),
                  .d_normed = activation(model_.hidden_size),
                  .d_ffn = activation(model_.intermediate_size),
                  .d_context = activation(heads_width()),
                  .d_qkv = activation(qkv_width()),
                  .head_rows = by_kv_head(group() * positions, width, type_),
                  .d_k = by_kv_head(positions, width, DataType::f32),
                  .d_v = by_kv_head(positions, width, DataType::f32),
                  .scores = {},
                  .probabilities = {},
                  .d_scores = {}};
  for (std::int64_t block = 0; block < num_blocks(); ++block) {
    scratch.scores.push_back(by_kv_head(block_rows(), visible(block), DataType::f32));
    scratch.probabilities.push_back(by_kv_head(block_rows(), visible(block), type_));
    scratch.d_scores.push_back(by_kv_head(block_rows(), visible(block), type_));
  }
  return scratch;
}

void Builder::forward(const DecoderLayer& layer, const Scratch& scratch) {
  layer.qkv.forward(list_, layer.normed, scratch.qkv);
  attention_forward(layer, scratch);
  layer.o.forward(list_, layer.context, layer.mid);
  layer.gate_up.forward(list_, layer.ffn_normed, layer.gate_up_out);
  layer.down.forward(list_, layer.ffn, layer.out);
}

void Builder::backward(const DecoderLayer& layer, const Scratch& scratch) {
  layer.down.input_gradient(list_, scratch.d_out, scratch.d_ffn);
  layer.gate_up.input_gradient(list_, layer.gate_up_out, scratch.d_normed);
  layer.down.weight_gradient(list_, scratch.d_out, layer.ffn);
  layer.gate_up.weight_gradient(list_, layer.gate_up_out, layer.ffn_normed);
  layer.o.input_gradient(list_, scratch.d_mid, scratch.d_context);
  attention_backward(layer, scratch);
  layer.qkv.input_gradient(list_, scratch.d_qkv, scratch.d_normed);
  layer.o.weight_gradient(list_, scratch.d_mid, layer.context);
  layer.qkv.weight_gradient(list_, scratch.d_qkv, layer.normed);
}

void Builder::attention_forward(const DecoderLayer& layer, const Scratch& scratch) {
  for (std::int64_t block = 0; block < num_blocks(); ++block) {
    const auto at = static_cast<std::size_t>(block);
    const Matrices q = layer.q.rows(block * block_rows(), block_rows());
    list_.multiply(q, layer.k.rows(0, visible(block)).transposed(), scratch.scores[at]);
    list_.multiply(scratch.probabilities[at], layer.v.rows(0, visible(block)),
                   scratch.head_rows.rows(block * block_rows(), block_rows()));
  }
}

void Builder::attention_backward(const DecoderLayer& layer, const Scratch& scratch) {
  for (std::int64_t block = 0; block < num_blocks(); ++block) {
    const auto at = static_cast<std::size_t>(block);
    const Matrices q = layer.q.rows(block * block_rows(), block_rows());
    const Matrices k = layer.k.rows(0, visible(block)), v = layer.v.rows(0, visible(block));
    const Matrices d_rows = scratch.head_rows.rows(block * block_rows(), block_rows());
    list_.multiply(q, k.transposed(), scratch.scores[at]);
    list_.multiply(d_rows, v.transposed(), scratch.scores[at]);
    list_.multiply(scratch.probabilities[at].transposed(), d_rows,
                   scratch.d_v.rows(0, visible(block)), Write::add);
    list_.multiply(scratch.d_scores[at].transposed(), q, scratch.d_k.rows(0, visible(block)),
                   Write::add);
    list_.multiply(scratch.d_scores[at], k, d_rows);
  }
}

void Builder::build() {
  std::vector<DecoderLayer> layers;
  for (std::int64_t i = 0; i < model_.num_hidden_layers; ++i) layers.push_back(make_layer());
  const Scratch scratch = make_scratch();
  const LinearLayer head(list_, type_, model_.vocab_size, model_.hidden_size);
  const Matrices normed = activation(model_.hidden_size);
  const Matrices logits = list_.allocate(DataType::f32, {workload_.tokens(), model_.vocab_size});
  const Matrices d_logits = type_ == DataType::f32 ? logits : activation(model_.vocab_size);
  for (const DecoderLayer& layer : layers) forward(layer, scratch);
  head.forward(list_, normed, logits);
  head.input_gradient(list_, d_logits, scratch.d_out);
  head.weight_gradient(list_, d_logits, normed);
  for (auto layer = layers.rbegin(); layer != layers.rend(); ++layer) backward(*layer, scratch);
}

}  // namespace

ProductList microbatch_products(const Workload& workload) {
  ProductList list;
  Builder(list, workload).build();
  return list;
}

}  // namespace troupe::bench
