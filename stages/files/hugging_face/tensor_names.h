#pragma once

#include <list>
#include <string>
#include <vector>

#include "stages/files/safetensors/model_tensors.h"
#include "stages/model/model_config.h"

namespace troupe::stages {

/// The tensors of a model by the names that Troupe gives them, and those left out.
struct NamedTensors {
  TensorMap tensors;
  std::vector<std::string> left_out;  ///< names in the files
  std::list<TensorEntry> parts;       ///< of fused tensors, which places point at
};

/// Gives the tensors of a directory their canonical names, as transformers does: names may lack the
/// prefix of the decoder ("transformer." or "model."); what older versions saved besides the
/// weights is left out (rotary_emb.inv_freq; GPT-2's masks attn.bias and attn.masked_bias), and so
/// is a head that equals the embedding to which it is tied. Fused experts become single ones.
/// Tensors of no meaning stay, for check_weights() to name. Throws Error{data} for a name that is
/// there with and without the prefix, and for a tied head that differs from the embedding.
NamedTensors canonical_names(const TensorMap& found, const ModelConfig& model);

}  // namespace troupe::stages
