#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "stages/model/adapter.h"
#include "stages/model/experts.h"
#include "stages/model/model_kinds.h"
#include "stages/model/parameter_group.h"
#include "tensor/device/rotary.h"
#include "tensor/values/dtype.h"
#include "tensor/values/shape.h"

namespace troupe::stages {

/// How fresh matrices are drawn, as Megatron-LM names its methods. Norms begin as ones, biases as
/// zeros.
enum class Initializer {
  normal,          ///< normal(0, initializer_range)
  scaled_normal,   ///< the same, but output projections, each of which adds to the residual, are
                   ///< divided by sqrt(2 * num_hidden_layers) (GPT-2)
  xavier_uniform,  ///< uniform in +-sqrt(6 / (inputs + outputs)) of the whole matrix (Glorot and
                   ///< Bengio, AISTATS 2010)
};

/// What a layer's queries see: all keys up to their own, or those of a window.
enum class LayerType { full, sliding };

/// A decoder, by the field names of Hugging Face's LlamaConfig, and for what it lacks those of the
/// other kinds. Fields that a kind does not have stay as they are here, where they change nothing.
/// What they mean for each layer is in computation.h. A value, already checked (check_model).
struct ModelConfig {
  ModelKind kind = ModelKind::llama;
  std::int64_t hidden_size = 256;
  std::int64_t intermediate_size = 688;  ///< of layers without experts; mixtral: of an expert
  std::int64_t num_hidden_layers = 4;
  std::int64_t num_attention_heads = 4;
  std::int64_t num_key_value_heads = 4;
  std::int64_t head_dim = 64;
  std::int64_t vocab_size = 256;
  double rms_norm_eps = 1e-5;  ///< of RMSNorm
  /// How queries and keys are rotated. Type dynamic has max_position_embeddings as its
  /// original_max_position_embeddings.
  tensor::Rotary rotary;
  /// How layers with a window rotate; none: as the others.
  std::optional<tensor::Rotary> local_rotary{};
  std::vector<int> no_rope_layers{};  ///< by layer, 0: not rotated; empty: all are rotated
  /// Keys that a query of a layer with a window sees, itself among them; 0: no layer has a window.
  std::int64_t sliding_window = 0;
  std::vector<LayerType> layer_types{};  ///< by layer; empty: as the kind has them
  Experts experts{};                     ///< of kinds that have them
  /// Scores are multiplied by its -1/2-th power; 0: by that of head_dim.
  std::int64_t query_pre_attn_scalar = 0;
  double attention_multiplier = 0;     ///< by which scores are multiplied instead; 0: not given
  double attn_logit_softcapping = 0;   ///< c of c * tanh(score / c); 0: scores stay as they are
  double final_logit_softcapping = 0;  ///< the same of logits
  double embedding_multiplier = 1;
  double residual_multiplier = 1;    ///< of what a sublayer adds to the residual stream
  double logits_scaling = 1;         ///< logits are divided by it
  bool attention_bias = false;       ///< of q, k, v and o
  bool mlp_bias = false;             ///< of gate, up and down
  double layer_norm_epsilon = 1e-5;  ///< of LayerNorm
  /// gpt2: rows of the table of positions. Others: the longest sequence that the model is meant
  /// for, which bounds nothing.
  std::int64_t max_position_embeddings = 2048;
  bool tie_word_embeddings = false;
  /// llama: a head with one output per token, the value of Hugging Face's
  /// LlamaForTokenClassification with num_labels = 1, in the place of that of the vocabulary. It
  /// has no loss and is not trained.
  bool value_head = false;
  bool value_head_bias = true;  ///< token_classification_bias
  double initializer_range = 0.02;
  Initializer initializer = Initializer::normal;
  double hidden_dropout = 0;     ///< probability, in training, at the residual stream's inputs
  double attention_dropout = 0;  ///< of attention's probabilities
  /// Tokens whose logits the head has in memory at a time; 0: as many as take 256 MiB.
  std::int64_t loss_chunk = 0;
  tensor::DType dtype = tensor::DType::f32;  ///< of compute and of edges; weights are float32
  /// With one, its matrices alone are trained.
  std::optional<Adapter> adapter{};
  /// Parameters that training treats otherwise than the rest; the first group that matches decides.
  std::vector<ParameterGroup> groups{};
  bool operator==(const ModelConfig&) const = default;
};

/// How the model's queries and keys are rotated; none if its positions are learned.
std::optional<tensor::Rotary> rotary_of(const ModelConfig& config);

/// Why the fields do not fit together: empty if they do, else the member at fault and one sentence
/// with its name, the rule and its numbers, and the nearest valid choice. Sizes that pass are small
/// enough that every product of sizes a stage forms fits in 63 bits.
tensor::FieldFault check_model(const ModelConfig& config);

/// How tensor parallelism divides a parameter among shards.
enum class Split {
  none,        ///< every shard holds all of it
  rows,        ///< the outputs of a column-parallel layer, of its weight and its bias
  columns,     ///< the inputs of a row-parallel layer
  kv_rows,     ///< rows by key and value head; if there are more shards than heads, some share one
  vocab_rows,  ///< rows of the vocabulary, padded until the number of shards divides them
  heads,  ///< every shard holds all of it, and computes with it on its own heads alone, so that its
          ///< gradient is a part of a sum
};

/// The place of a parameter in the tensors of Hugging Face. GPT-2's matrices are transposed there
/// (Conv1D: [in, out]), and queries, keys and values are ranges of one tensor's outputs. In memory,
/// and wherever training state travels, all kinds have matrices [out, in] and q, k and v apart, as
/// products and shards want them, so that only the code that reads and writes checkpoints knows
/// that files differ. InternLM 2 has the rows of q, k and v in turns, those of one key and value
/// head after those of another.
struct StoredAs {
  std::string tensor;
  std::int64_t first_row = 0;  ///< of the parameter among the rows of the tensor, not transposed
  std::int64_t rows = 0;       ///< of the tensor, not transposed
  bool transposed = false;
  std::int64_t turn_rows = 0;    ///< of the parameter that follow each other; 0: all do
  std::int64_t turn_stride = 0;  ///< rows from the first of a turn to the first of the next
  bool operator==(const StoredAs&) const = default;
};

/// The parts of a decoder that have parameters. Those from the first norm to the last but
/// the final one are in each layer, which may lack some norms (NormPlace).
enum class Module {
  embedding,
  attention_norm,
  attention,
  attention_end_norm,  ///< of what attention adds to the residual stream
  feed_forward_norm,
  feed_forward,
  feed_forward_end_norm,
  final_norm,
  head
};

/// What a parameter is in its module. A module of two products has `weight` and `bias` for the
/// first and the others for the last.
/// Attention's norms of queries and of keys are fields of it.
enum class Field {
  weight,
  bias,
  query_norm,
  key_norm,
  out_weight,
  out_bias,
  positions,
  router,  ///< of a feed-forward layer with experts: [experts, hidden_size]
  // An adapter's A and B of the first product, and of the last (adapter.h).
  lora_a,
  lora_b,
  out_lora_a,
  out_lora_b,
};

/// ParameterInfo::layer of the matrix of token embeddings, and of the table of positions.
inline constexpr int kEmbeddingLayer = -1;
inline constexpr int kPositionsLayer = -2;

/// One parameter of the whole model.
struct ParameterInfo {
  std::string name;  ///< that of its tensor, with .q, .k or .v where a tensor has three of them
  tensor::Shape shape;
  /// The decoder layer, or one of the numbers above; num_hidden_layers: final norm and head.
  int layer = 0;
  Module module = Module::embedding;
  Field field = Field::weight;
  Split split = Split::none;
  /// Whether one product, or one call for the experts of a layer, computes with this parameter and
  /// the one before it.
  bool is_joined = false;
  int expert = -1;  ///< whose matrix it is; -1: of none
  /// The weight, as a number among those of its product, to whose outputs an adapter's B adds; of
  /// an A the first of them. -1: no adapter's.
  int part = -1;
  StoredAs stored{};
  UpdateRule update{};  ///< of its group
};

/// Every parameter in canonical order: embedding, layers, final norm, head, positions. A layer's
/// are in their order of use: norm, q, k, v, norms of q and k, o, norm after it, norm, gate, up,
/// down, norm after it; of gpt2 norm, q, k, v, o, norm, c_fc, c_proj. A layer with experts has in
/// the place of gate, up and down: the router, gate and up of each expert in turn, down of each.
/// Where there are biases, they follow the weights that one product computes with: those of q, k
/// and v all three, those of gate and up both. Behind them are an adapter's. The head is absent if
/// embeddings are tied, positions are if they are rotary; a value head is score.
std::vector<ParameterInfo> parameters_of(const ModelConfig& config);
std::map<std::string, ParameterInfo> parameters_by_name(const ModelConfig& config);
std::int64_t num_parameters(const ModelConfig& config);
/// Elements of the parameters that are not frozen.
std::int64_t num_trained_parameters(const ModelConfig& config);
/// Elements of the parameters that compute one token: all but those of experts that were not
/// chosen for it.
std::int64_t num_active_parameters(const ModelConfig& config);

}  // namespace troupe::stages
