#include "stages/parameters/part_parameters.h"

#include <numeric>

#include "tensor/error.h"

namespace troupe::stages {

PartParameters::PartParameters(const ModelConfig& model, const ParameterLayout& layout)
    : model_(model), head_use_(layout.head_use) {
  for (const ParameterLayout::Entry& entry : layout.entries) {
    first_of_layer_.emplace(entry.info.layer, bucket_of_.size());
    bucket_of_.push_back(entry.bucket);
  }
}

std::size_t PartParameters::first_of(int layer) const {
  const auto found = first_of_layer_.find(layer);
  TROUPE_ASSERT(found != first_of_layer_.end());
  return found->second;
}

std::vector<int> PartParameters::numbers_of(Node::Sublayer part, int layer) const {
  using Sublayer = Node::Sublayer;
  const bool is_gpt2 = model_.kind == ModelKind::gpt2;
  const int norm = is_gpt2 ? 2 : 1, attention = is_gpt2 || model_.attention_bias ? 8 : 4;
  const int feed_forward = (is_gpt2 ? 2 : 3) + (is_gpt2 ? 2 : model_.mlp_bias ? 3 : 0);
  const auto range = [&](int of_layer, int skipped, int count) {
    std::vector<int> numbers(static_cast<std::size_t>(count));
    std::iota(numbers.begin(), numbers.end(), static_cast<int>(first_of(of_layer)) + skipped);
    return numbers;
  };
  const int last = static_cast<int>(model_.num_hidden_layers);
  switch (part) {
    case Sublayer::input_norm:
      return range(layer, 0, norm);
    case Sublayer::attention:
      return range(layer, norm, attention);
    case Sublayer::post_norm:
      return range(layer, norm + attention, norm);
    case Sublayer::feed_forward:
      return range(layer, norm + attention + norm, feed_forward);
    case Sublayer::final_norm:
      return range(last, 0, norm);
    case Sublayer::head:
      return model_.tie_word_embeddings ? range(kEmbeddingLayer, 0, 1) : range(last, norm, 1);
    case Sublayer::embedding: {
      std::vector<int> numbers = range(kEmbeddingLayer, 0, 1);
      if (is_gpt2) numbers.push_back(static_cast<int>(first_of(kPositionsLayer)));
      return numbers;
    }
    case Sublayer::edge:
    case Sublayer::copy:
      return {};
  }
  assert_failed("part is a Sublayer", __FILE__, __LINE__);
}

std::vector<int> PartParameters::buckets_of(Node::Sublayer part, int layer) const {
  if (part == Node::Sublayer::head && head_use_ >= 0) return {head_use_};
  std::vector<int> numbers;
  for (const int parameter : numbers_of(part, layer)) {
    const int bucket = bucket_of_[static_cast<std::size_t>(parameter)];
    if (numbers.empty() || numbers.back() != bucket) numbers.push_back(bucket);
  }
  return numbers;
}

bool reads_weights(const Node& node) {
  switch (node.work) {
    case Node::Work::forward:
    case Node::Work::finish_output:
      return true;
    case Node::Work::input_gradient:
      return node.part != Node::Sublayer::embedding;
    default:
      return false;
  }
}

}  // namespace troupe::stages
