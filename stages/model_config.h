#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tensor/dtype.h"
#include "tensor/shape.h"

namespace troupe::stages {

/// A Llama decoder, by the field names of Hugging Face's LlamaConfig. A value, already checked
/// (check_model).
struct ModelConfig {
  std::int64_t hidden_size = 256;
  std::int64_t intermediate_size = 688;
  std::int64_t num_hidden_layers = 4;
  std::int64_t num_attention_heads = 4;
  std::int64_t num_key_value_heads = 4;
  std::int64_t head_dim = 64;
  std::int64_t vocab_size = 256;
  double rms_norm_eps = 1e-5;
  double rope_theta = 10000.0;
  bool tie_word_embeddings = false;
  double initializer_range = 0.02;
  tensor::DType dtype = tensor::DType::f32;  ///< of compute and of edges; weights are float32
  bool operator==(const ModelConfig&) const = default;
};

/// Why the fields do not fit together: an empty string if they do, else one sentence with the
/// field, the rule and its numbers, and the nearest valid choice. Sizes that pass are small enough
/// that every product of sizes a stage forms fits in 63 bits.
std::string check_model(const ModelConfig& config);

/// How tensor parallelism divides a parameter among shards.
enum class Split {
  none,        ///< every shard holds all of it
  rows,        ///< the outputs of a column-parallel layer
  columns,     ///< the inputs of a row-parallel layer
  kv_rows,     ///< rows by key and value head; if there are more shards than heads, some share one
  vocab_rows,  ///< rows of the vocabulary, padded until the number of shards divides them
};

/// One parameter of the whole model under its Hugging Face name.
struct ParameterInfo {
  std::string name;
  tensor::Shape shape;
  int layer = 0;  ///< decoder layer; -1: input embedding, num_hidden_layers: final norm and head
  Split split = Split::none;
};

/// Every parameter in canonical order: embedding, layers (norm, q, k, v, o, norm, gate, up, down),
/// final norm, head. lm_head.weight is absent if embeddings are tied.
std::vector<ParameterInfo> parameters_of(const ModelConfig& config);
std::int64_t num_parameters(const ModelConfig& config);

}  // namespace troupe::stages
