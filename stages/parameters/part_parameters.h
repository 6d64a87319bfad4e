#pragma once

#include <map>
#include <vector>

#include "stages/node_row.h"
#include "stages/parameters/parameter_layout.h"

namespace troupe::stages {

/// Which parameters of a stage, and which buckets, a part of the model computes with.
class PartParameters {
 public:
  PartParameters(const ModelConfig& model, const ParameterLayout& layout);

  /// The number of the first parameter of a layer (ParameterInfo::layer).
  std::size_t first_of(int layer) const;
  bool has(int layer) const { return first_of_layer_.contains(layer); }
  /// Numbers in Stage::parameters() of a part's parameters; `layer` if it is part of one.
  std::vector<int> numbers_of(Node::Sublayer part, int layer) const;
  /// Numbers in Stage::buckets() of their buckets, each once: those to which its weight gradients
  /// add, and whose weights it reads.
  std::vector<int> buckets_of(Node::Sublayer part, int layer) const;

 private:
  const ModelConfig model_;
  std::map<int, std::size_t> first_of_layer_;
  std::vector<int> bucket_of_;  // by parameter
  int head_use_;                // ParameterLayout::head_use
};

/// Whether a node reads the weights of its part.
bool reads_weights(const Node& node);

}  // namespace troupe::stages
