#include "stages/node_row.h"

#include <algorithm>
#include <iterator>

namespace troupe::stages {
namespace {

using Sublayer = Node::Sublayer;
using Work = Node::Work;

std::size_t num_blocks(const ChunkSpec& chunk) {
  return static_cast<std::size_t>(chunk.end_layer - chunk.first_layer);
}

bool copies(const ChunkSpec& chunk) {
  return !chunk.embedding && !chunk.head && num_blocks(chunk) == 0;
}

std::vector<Node> forward_nodes(const ChunkSpec& chunk) {
  std::vector<Node> nodes;
  if (chunk.embedding) nodes.push_back({Sublayer::embedding});
  for (std::size_t block = 0; block < num_blocks(chunk); ++block)
    for (const Sublayer part :
         {Sublayer::input_norm, Sublayer::attention, Sublayer::post_norm, Sublayer::feed_forward})
      nodes.push_back({part, Work::forward, block});
  if (chunk.head) nodes.push_back({Sublayer::head});
  if (copies(chunk)) nodes.push_back({Sublayer::copy});
  return nodes;
}

/// The weight gradient of a part follows its input gradient, because all blocks share the memory
/// between the two. Only the weight gradient of attention waits for the input gradient of the input
/// norm, so that the chunk's own input gradient is complete as early as possible.
std::vector<Node> backward_nodes(const ChunkSpec& chunk) {
  std::vector<Node> nodes;
  const auto add = [&](Sublayer part, Work work, std::size_t block) {
    nodes.push_back({part, work, block});
  };
  const auto add_both = [&](Sublayer part, std::size_t block) {
    add(part, Work::input_gradient, block);
    add(part, Work::weight_gradient, block);
  };
  if (copies(chunk)) add_both(Sublayer::copy, 0);
  if (chunk.head) add_both(Sublayer::head, 0);
  for (std::size_t block = num_blocks(chunk); block-- > 0;) {
    add_both(Sublayer::feed_forward, block);
    add_both(Sublayer::post_norm, block);
    add(Sublayer::attention, Work::input_gradient, block);
    add(Sublayer::input_norm, Work::input_gradient, block);
    add(Sublayer::attention, Work::weight_gradient, block);
    add(Sublayer::input_norm, Work::weight_gradient, block);
  }
  if (chunk.embedding) add_both(Sublayer::embedding, 0);
  return nodes;
}

std::vector<Node> nodes_of(const ChunkSpec& chunk, Pass pass) {
  if (pass == Pass::forward) return forward_nodes(chunk);
  const std::vector<Node> both = backward_nodes(chunk);
  if (pass == Pass::backward) return both;
  const Work work = pass == Pass::input_gradient ? Work::input_gradient : Work::weight_gradient;
  std::vector<Node> nodes;
  std::ranges::copy_if(both, std::back_inserter(nodes),
                       [&](const Node& node) { return node.work == work; });
  return nodes;
}

/// Whether a node of a backward reads the gradient that the chunk was given.
bool reads_output_gradient(const ChunkSpec& chunk, const Node& node) {
  if (chunk.head) return false;
  switch (node.part) {
    case Sublayer::feed_forward:
      return node.block + 1 == num_blocks(chunk);
    case Sublayer::post_norm:  // the gradient of the residual stream
      return node.block + 1 == num_blocks(chunk) && node.work == Work::input_gradient;
    case Sublayer::copy:
      return node.work == Work::input_gradient;
    case Sublayer::embedding:
      return num_blocks(chunk) == 0 && node.work == Work::weight_gradient;
    default:
      return false;
  }
}

/// Index of the last node of a row for which `is_one` holds; the row's size if there is none.
template <typename IsOne>
std::size_t last_of(const std::vector<Node>& nodes, IsOne&& is_one) {
  const auto found = std::find_if(nodes.rbegin(), nodes.rend(), is_one);
  if (found == nodes.rend()) return nodes.size();
  return static_cast<std::size_t>(nodes.rend() - found) - 1;
}

/// Index of the node at which a pass reads the output gradient for the last time in its
/// microbatch's backward; the row's size if a later pass reads it again, or no node does.
std::size_t end_of_output_gradient(const ChunkSpec& chunk, const std::vector<Node>& nodes,
                                   Pass pass) {
  const auto reads = [&](const Node& node) { return reads_output_gradient(chunk, node); };
  const bool again = pass == Pass::input_gradient &&
                     std::ranges::any_of(nodes_of(chunk, Pass::weight_gradient), reads);
  return again ? nodes.size() : last_of(nodes, reads);
}

}  // namespace

NodeRow row_of(const ChunkSpec& chunk, Pass pass) {
  NodeRow row{.nodes = nodes_of(chunk, pass), .ends = {}};
  row.ends.resize(row.nodes.size());
  if (pass == Pass::forward) {
    row.ends.back() = {.output = true, .input = copies(chunk)};
    return row;
  }
  const std::size_t gradient = end_of_output_gradient(chunk, row.nodes, pass);
  if (gradient < row.ends.size()) row.ends[gradient].output_gradient = true;
  if (pass == Pass::weight_gradient) return row;
  const auto complete =
      last_of(row.nodes, [](const Node& node) { return node.work == Work::input_gradient; });
  row.ends[complete].output = true;
  // No weight gradient reads the input of its forward: it uses the norm's output.
  row.ends[complete].input = !copies(chunk);
  return row;
}

}  // namespace troupe::stages
