#include <algorithm>
#include <iterator>

#include "stages/decoder/chunk/chunk_layers.h"

namespace troupe::stages {
namespace {

std::vector<Node> forward_nodes(const ChunkLayers& layers) {
  const ChunkSpec& chunk = layers.spec;
  NodeList nodes(layers.sharding);
  if (layers.copies()) add_copy(nodes, layers);
  if (layers.gathers_edges() && !chunk.embedding) add_edge_gather(nodes, layers);
  if (chunk.embedding) add_embedding(nodes, layers);
  for (std::size_t block = 0; block < layers.num_blocks(); ++block) add_block(nodes, layers, block);
  if (chunk.head) add_head(nodes, layers);
  return nodes.take();
}

/// Each pass has a node.
void add_no_weight_gradient(NodeList& nodes) {
  nodes.set_module({});
  nodes.weight_gradient([](const NodeCall&) {});
}

std::vector<Node> backward_nodes(const ChunkLayers& layers) {
  const ChunkSpec& chunk = layers.spec;
  NodeList nodes(layers.sharding);
  if (layers.copies()) add_copy_gradients(nodes, layers);
  if (layers.gathers_edges() && !chunk.head) add_edge_gradient_gather(nodes, layers);
  if (chunk.head) add_head_gradients(nodes, layers);
  for (std::size_t block = layers.num_blocks(); block-- > 0;)
    add_block_gradients(nodes, layers, block);
  if (chunk.embedding) add_embedding_gradients(nodes, layers);
  if (layers.form.has_frozen_base && !layers.copies() && layers.num_blocks() == 0)
    add_no_weight_gradient(nodes);
  return nodes.take();
}

std::vector<Node> nodes_of(const ChunkLayers& layers, Pass pass) {
  if (pass == Pass::forward) return forward_nodes(layers);
  std::vector<Node> nodes = backward_nodes(layers);
  if (pass == Pass::input_gradient)
    std::erase_if(nodes, [](const Node& node) { return !node.with_input_gradients; });
  if (pass == Pass::weight_gradient)
    std::erase_if(nodes, [](const Node& node) { return !node.with_weight_gradients; });
  return nodes;
}

/// Index of the last node of a row for which `is_one` holds; the row's size if there is none.
template <typename IsOne>
std::size_t last_of(const std::vector<Node>& nodes, IsOne&& is_one) {
  const auto found = std::find_if(nodes.rbegin(), nodes.rend(), is_one);
  if (found == nodes.rend()) return nodes.size();
  return static_cast<std::size_t>(nodes.rend() - found) - 1;
}

bool is_input_gradient(const Node& node) {
  return node.kind == Node::Kind::input_gradient;
}

/// Index of the node at which a pass reads the output gradient for the last time in its
/// microbatch's backward; the row's size if a later pass reads it again, or no node does.
std::size_t end_of_output_gradient(const ChunkLayers& layers, const std::vector<Node>& nodes,
                                   Pass pass) {
  if (layers.gathers_edges()) {
    // Only the gather reads it, for which the first input gradient waits.
    if (layers.spec.head || pass == Pass::weight_gradient) return nodes.size();
    return static_cast<std::size_t>(std::ranges::find_if(nodes, is_input_gradient) - nodes.begin());
  }
  const auto reads = [](const Node& node) { return node.reads_output_gradient; };
  const bool is_read_later = pass == Pass::input_gradient &&
                             std::ranges::any_of(nodes_of(layers, Pass::weight_gradient), reads);
  return is_read_later ? nodes.size() : last_of(nodes, reads);
}

}  // namespace

NodeRow row_of(const ChunkLayers& layers, Pass pass) {
  NodeRow row{.nodes = nodes_of(layers, pass), .ends = {}};
  for (const Node& node : row.nodes) row.ends.push_back({.brief = node.brief});
  if (pass == Pass::forward) {
    row.ends.back().output = true;
    row.ends.back().input = layers.copies();
    if (layers.gathers_edges() && !layers.spec.embedding) row.ends[1].input = true;
    return row;
  }
  const std::size_t gradient = end_of_output_gradient(layers, row.nodes, pass);
  if (gradient < row.ends.size()) row.ends[gradient].output_gradient = true;
  if (pass == Pass::weight_gradient) return row;
  const std::size_t complete = last_of(row.nodes, is_input_gradient);
  row.ends[complete].output = true;
  // No weight gradient reads the input of its forward: it uses the norm's output.
  row.ends[complete].input = !layers.copies() && !stages::gathers_edges(layers.sharding);
  return row;
}

}  // namespace troupe::stages
