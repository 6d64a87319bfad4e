#pragma once

#include <optional>
#include <vector>

#include "stages/decoder/parameters/parameter_layout.h"

namespace troupe::stages {

/// Which parameters of a stage, and which buckets, each module of the model computes with.
class ModuleParameters {
 public:
  ModuleParameters(const ModelConfig& model, const ParameterLayout& layout);

  /// Numbers in Stage::parameters() of a module's parameters, or of those that are one field of
  /// it; `layer` if it is one of a layer's. The head of a tied embedding has that one's.
  std::vector<int> numbers_of(Module module, std::optional<Field> field = {}, int layer = 0) const;
  /// The number of the matrix of token embeddings, if the stage has it.
  std::optional<std::size_t> table() const;
  /// Numbers in Stage::buckets() of a module's buckets, each once: those to which its weight
  /// gradients add, and whose weights it reads.
  std::vector<int> buckets_of(Module module, int layer) const;

 private:
  struct Entry {
    Module module;
    Field field;
    int layer;
    int bucket;
  };
  std::vector<Entry> entries_;  // by parameter
  int num_layers_;
  bool is_tied_;
  int head_use_;  // ParameterLayout::head_use
};

}  // namespace troupe::stages
