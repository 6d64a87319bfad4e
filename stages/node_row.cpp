#include "stages/node_row.h"

#include <algorithm>
#include <iterator>
#include <utility>

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

/// Collects nodes; `divided` ones only if there are several shards, `split` ones only with sequence
/// parallelism.
class Nodes {
 public:
  explicit Nodes(const Sharding& sharding)
      : is_divided_(sharding.size > 1), is_split_(is_divided_ && sharding.sequence_parallel) {}
  void add(Sublayer part, Work work, std::size_t block = 0) {
    nodes_.push_back({part, work, block, again_});
  }
  void divided(Sublayer part, Work work, std::size_t block = 0) {
    if (is_divided_) add(part, work, block);
  }
  void split(Sublayer part, Work work, std::size_t block = 0) {
    if (is_split_) add(part, work, block);
  }
  bool is_divided() const { return is_divided_; }
  /// Whether the nodes added from now on are those of a forward in a backward.
  void set_again(bool again) { again_ = again; }
  std::vector<Node> take() { return std::move(nodes_); }

 private:
  const bool is_divided_, is_split_;
  bool again_ = false;
  std::vector<Node> nodes_;
};

/// A layer up to what its feed-forward keeps.
void add_layer(Nodes& nodes, std::size_t block) {
  nodes.add(Sublayer::input_norm, Work::forward, block);
  nodes.split(Sublayer::attention, Work::gather_input, block);
  nodes.add(Sublayer::attention, Work::forward, block);
  nodes.divided(Sublayer::attention, Work::reduce_output, block);
  nodes.add(Sublayer::post_norm, Work::forward, block);
  nodes.split(Sublayer::feed_forward, Work::gather_input, block);
  nodes.add(Sublayer::feed_forward, Work::forward, block);
}

/// The sum over the shards that completes a layer's output.
void add_layer_output(Nodes& nodes, std::size_t block) {
  nodes.divided(Sublayer::feed_forward, Work::reduce_output, block);
  nodes.divided(Sublayer::feed_forward, Work::finish_output, block);
}

std::vector<Node> forward_nodes(const ChunkSpec& chunk, const Sharding& sharding) {
  Nodes nodes(sharding);
  if (copies(chunk)) nodes.add(Sublayer::copy, Work::forward);
  if (gathers_edges(sharding) && !chunk.embedding && !copies(chunk))
    nodes.add(Sublayer::edge, Work::gather_input);
  if (chunk.embedding) {
    nodes.add(Sublayer::embedding, Work::forward);
    nodes.divided(Sublayer::embedding, Work::reduce_output);
    nodes.divided(Sublayer::embedding, Work::finish_output);
  }
  for (std::size_t block = 0; block < num_blocks(chunk); ++block) {
    add_layer(nodes, block);
    add_layer_output(nodes, block);
  }
  if (chunk.head) {
    nodes.add(Sublayer::final_norm, Work::forward);
    nodes.split(Sublayer::head, Work::gather_input);
    nodes.add(Sublayer::head, Work::forward);
    nodes.divided(Sublayer::head, Work::reduce_max);
    nodes.divided(Sublayer::head, Work::local_sums);
    nodes.divided(Sublayer::head, Work::reduce_sums);
    nodes.add(Sublayer::head, Work::loss);
  }
  return nodes.take();
}

/// The gradients of a part that begins with a column-parallel product. Its input gradient is summed
/// over the shards while its weight gradient computes.
void add_gradients(Nodes& nodes, Sublayer part, std::size_t block = 0) {
  if (part != Sublayer::head) nodes.split(part, Work::gather_gradient, block);
  nodes.split(part, Work::gather_input_again, block);
  nodes.add(part, Work::input_gradient, block);
  nodes.divided(part, Work::reduce_gradient, block);
}

/// What is computed again of whole layers before the gradients of `block`: the group that it ends,
/// up to what its own feed-forward keeps, because nobody reads its output again.
void add_group_again(Nodes& nodes, const Recompute& recompute, const Sharding& sharding,
                     std::size_t block, std::size_t blocks) {
  if (!is_recomputed(recompute, block) || !ends_group(recompute, block, blocks)) return;
  const std::size_t first = first_of_group(recompute, block);
  nodes.set_again(true);
  if (distributes_inputs(recompute, sharding)) nodes.add(Sublayer::edge, Work::gather_input, first);
  for (std::size_t i = first; i <= block; ++i) {
    add_layer(nodes, i);
    if (i < block) add_layer_output(nodes, i);
  }
  nodes.set_again(false);
}

/// What is computed again of one part of a layer before its gradients.
void add_part_again(Nodes& nodes, const Recompute& recompute, Sublayer part, std::size_t block) {
  const bool is_computed =
      recompute.mode == Recompute::Mode::output ||
      (recompute.mode == Recompute::Mode::selective && part == Sublayer::attention);
  if (!is_computed) return;
  nodes.set_again(true);
  nodes.add(part, Work::forward, block);
  nodes.set_again(false);
}

/// The weight gradient of a part follows its input gradient, because all blocks share the memory
/// between the two. Only the weight gradient of attention waits for the input gradient of the input
/// norm, so that the chunk's own input gradient is complete as early as possible, unless it hides
/// the sum of the input gradient over the shards.
std::vector<Node> backward_nodes(const ChunkSpec& chunk, const Sharding& sharding,
                                 const Recompute& recompute) {
  Nodes nodes(sharding);
  const auto add_both = [&](Sublayer part, std::size_t block = 0) {
    nodes.add(part, Work::input_gradient, block);
    nodes.add(part, Work::weight_gradient, block);
  };
  if (copies(chunk)) add_both(Sublayer::copy);
  if (gathers_edges(sharding) && !chunk.head && !copies(chunk))
    nodes.add(Sublayer::edge, Work::gather_gradient);
  if (chunk.head) {
    add_gradients(nodes, Sublayer::head);
    nodes.add(Sublayer::head, Work::weight_gradient);
    add_both(Sublayer::final_norm);
  }
  for (std::size_t block = num_blocks(chunk); block-- > 0;) {
    if (recompute.mode == Recompute::Mode::full)
      add_group_again(nodes, recompute, sharding, block, num_blocks(chunk));
    add_part_again(nodes, recompute, Sublayer::feed_forward, block);
    add_gradients(nodes, Sublayer::feed_forward, block);
    nodes.add(Sublayer::feed_forward, Work::weight_gradient, block);
    add_both(Sublayer::post_norm, block);
    add_part_again(nodes, recompute, Sublayer::attention, block);
    add_gradients(nodes, Sublayer::attention, block);
    if (nodes.is_divided()) nodes.add(Sublayer::attention, Work::weight_gradient, block);
    nodes.add(Sublayer::input_norm, Work::input_gradient, block);
    if (!nodes.is_divided()) nodes.add(Sublayer::attention, Work::weight_gradient, block);
    nodes.add(Sublayer::input_norm, Work::weight_gradient, block);
  }
  if (chunk.embedding) {
    nodes.split(Sublayer::embedding, Work::gather_gradient);
    add_both(Sublayer::embedding);
  }
  return nodes.take();
}

/// Whether a backward that computes input gradients alone has the node, or one that computes weight
/// gradients alone. What both read is gathered twice, because no pass keeps it for a later one.
bool is_in(const Node& node, Pass pass) {
  if (node.again) return pass == Pass::input_gradient;  // which overwrites what it is computed from
  switch (node.work) {
    case Work::gather_gradient:
      if (node.part == Sublayer::edge) return pass == Pass::input_gradient;
      return pass == Pass::weight_gradient || node.part != Sublayer::embedding;
    case Work::weight_gradient:
    case Work::gather_input_again:
      return pass == Pass::weight_gradient;
    default:
      return pass == Pass::input_gradient;
  }
}

std::vector<Node> nodes_of(const ChunkSpec& chunk, Pass pass, const Sharding& sharding,
                           const Recompute& recompute) {
  if (pass == Pass::forward) return forward_nodes(chunk, sharding);
  const std::vector<Node> both = backward_nodes(chunk, sharding, recompute);
  if (pass == Pass::backward) return both;
  std::vector<Node> nodes;
  std::ranges::copy_if(both, std::back_inserter(nodes),
                       [&](const Node& node) { return is_in(node, pass); });
  return nodes;
}

/// Whether a node of a backward reads the gradient that the chunk was given.
bool reads_output_gradient(const ChunkSpec& chunk, const Node& node) {
  if (chunk.head || node.again) return false;
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

bool begins_at_edge(const std::vector<Node>& nodes) {
  return !nodes.empty() && nodes.front().part == Sublayer::edge;
}

/// Index of the node at which a pass reads the output gradient for the last time in its
/// microbatch's backward; the row's size if a later pass reads it again, or no node does.
std::size_t end_of_output_gradient(const ChunkSpec& chunk, const std::vector<Node>& nodes,
                                   Pass pass, const Sharding& sharding) {
  // The first input gradient waits until it is gathered.
  if (begins_at_edge(nodes)) {
    const auto waits = std::ranges::find(nodes, Work::input_gradient, &Node::work);
    return static_cast<std::size_t>(waits - nodes.begin());
  }
  if (gathers_edges(sharding) && !copies(chunk)) return nodes.size();
  const auto reads = [&](const Node& node) { return reads_output_gradient(chunk, node); };
  const bool again =
      pass == Pass::input_gradient &&
      std::ranges::any_of(nodes_of(chunk, Pass::weight_gradient, sharding, {}), reads);
  return again ? nodes.size() : last_of(nodes, reads);
}

/// Whether a node is over soon: the other pass of a pair need not wait for its turn.
bool is_brief(const Node& node) {
  switch (node.part) {
    case Sublayer::edge:
    case Sublayer::input_norm:
    case Sublayer::post_norm:
    case Sublayer::final_norm:
      return true;
    default:
      return starts_collective(node.work) || node.work == Work::finish_output;
  }
}

}  // namespace

bool starts_collective(Node::Work work) {
  switch (work) {
    case Work::gather_input:
    case Work::reduce_output:
    case Work::gather_gradient:
    case Work::reduce_gradient:
    case Work::gather_input_again:
    case Work::reduce_max:
    case Work::reduce_sums:
      return true;
    default:
      return false;
  }
}

NodeRow row_of(const ChunkSpec& chunk, Pass pass, const Sharding& sharding,
               const Recompute& recompute) {
  NodeRow row{.nodes = nodes_of(chunk, pass, sharding, recompute), .ends = {}};
  for (const Node& node : row.nodes) row.ends.push_back({.brief = is_brief(node)});
  if (pass == Pass::forward) {
    row.ends.back().output = true;
    row.ends.back().input = copies(chunk);
    if (begins_at_edge(row.nodes)) row.ends[1].input = true;
    return row;
  }
  const std::size_t gradient = end_of_output_gradient(chunk, row.nodes, pass, sharding);
  if (gradient < row.ends.size()) row.ends[gradient].output_gradient = true;
  if (pass == Pass::weight_gradient) return row;
  const auto complete =
      last_of(row.nodes, [](const Node& node) { return node.work == Work::input_gradient; });
  row.ends[complete].output = true;
  // No weight gradient reads the input of its forward: it uses the norm's output.
  row.ends[complete].input = !copies(chunk) && !gathers_edges(sharding);
  return row;
}

}  // namespace troupe::stages
