#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "stages/decoder/chunk/activations.h"
#include "stages/model/model_config.h"

namespace troupe::stages {

/// What a node works on: one microbatch in one chunk.
struct NodeCall {
  ChunkSlot& slot;
  const DeferredSlot* deferred = nullptr;               ///< of a backward
  const ForwardCall* forward = nullptr;                 ///< of a forward
  float loss_scale = 1;                                 ///< of a forward: its loss's gradients
  tensor::Gradient gradient = tensor::Gradient::first;  ///< of a weight gradient
};

/// A node of a chunk as a row of a table: what it computes, and all that is asked about it.
struct Node {
  enum class Kind {
    forward,
    input_gradient,
    weight_gradient,
    collective,  ///< over the shards, only started: the node that reads the result waits for it
  };
  /// Hands the work to the stream. Returns a collective that it started; null if it started none.
  using Run = std::function<std::unique_ptr<tensor::Work>(const NodeCall&)>;

  Kind kind = Kind::forward;
  Run run{};
  bool again = false;  ///< a part of a forward in a backward, which computes it again
  bool brief = false;  ///< NodeEffects::brief
  /// Which halves of a backward have the node. What both read is gathered twice, because no pass
  /// keeps it for a later one.
  bool with_input_gradients = false, with_weight_gradients = false;
  bool reads_output_gradient = false;  ///< that of the chunk
  /// The module whose parameters it computes with, and the chunk's layer if it is one of a layer's.
  std::optional<Module> module{};
  std::size_t block = 0;
  bool reads_weights = false;  ///< those of the module
  std::size_t number = 0;      ///< among the nodes of a whole backward
  /// What a weight gradient writes (Chunk sets it), and whether it is zero, as all these parameters
  /// are frozen: what it is goes into no update, but into sums over replicas.
  std::vector<tensor::Tensor> gradients{};
  bool is_frozen = false;
  /// The collectives that it waits for, in this order, if they are under way, because it reads
  /// their results, or starts a collective with them; and the one that it starts.
  std::array<PendingCollective, 2> waits{};
  PendingCollective starts = nullptr;
};

/// The nodes of one pass through a chunk in the order in which they run, and what ends with each.
struct NodeRow {
  std::vector<Node> nodes;
  std::vector<NodeEffects> ends;
};

/// Collects the nodes of a pass. Each function adds one and returns it, so that the caller can say
/// more about it; `run` is called with a NodeCall.
class NodeList {
 public:
  explicit NodeList(const Sharding& sharding)
      : is_divided_(sharding.size > 1), is_split_(is_divided_ && sharding.sequence_parallel) {}

  bool is_divided() const { return is_divided_; }  ///< among several shards
  bool is_split() const { return is_split_; }      ///< along the sequence too
  bool is_again() const { return again_; }
  /// The nodes added from now on are, or are not, those of a forward in a backward.
  void set_again(bool again) { again_ = again; }
  /// They compute with this module.
  void set_module(std::optional<Module> module, std::size_t block = 0) {
    module_ = module;
    block_ = block;
  }

  // Of a forward, or of what a backward computes again.
  template <typename Run>
  Node& forward(Run run) {
    return add({.kind = Node::Kind::forward,
                .run = computing(run),
                .with_input_gradients = again_,
                .reads_weights = true,
                .waits = {pending()}});
  }
  /// `run` returns the collective.
  template <typename Run>
  Node& collective(Run run) {
    return add_collective(
        {.run = run, .with_input_gradients = again_, .waits = {pending()}, .starts = pending()});
  }

  // Of a backward.
  template <typename Run>
  Node& gather_gradient(Run run) {
    return add_collective({.run = run,
                           .with_input_gradients = true,
                           .with_weight_gradients = true,
                           .waits = {&PendingCollectives::reduced},
                           .starts = &PendingCollectives::gradient});
  }
  template <typename Run>
  Node& gather_input_again(Run run) {
    return add_collective(
        {.run = run, .with_weight_gradients = true, .starts = &PendingCollectives::input});
  }
  template <typename Run>
  Node& input_gradient(Run run) {
    return add({.kind = Node::Kind::input_gradient,
                .run = computing(run),
                .with_input_gradients = true,
                .reads_weights = true,
                .waits = {&PendingCollectives::gradient, &PendingCollectives::reduced}});
  }
  template <typename Run>
  Node& reduce_gradient(Run run) {
    return add_collective(
        {.run = run, .with_input_gradients = true, .starts = &PendingCollectives::reduced});
  }
  /// Computes the gradients of all parameters of the module.
  template <typename Run>
  Node& weight_gradient(Run run) {
    return add({.kind = Node::Kind::weight_gradient,
                .run = computing(run),
                .with_weight_gradients = true,
                .waits = {&PendingCollectives::gradient, &PendingCollectives::input}});
  }

  std::vector<Node> take() { return std::move(nodes_); }

 private:
  template <typename Run>
  static Node::Run computing(Run run) {
    return [run](const NodeCall& call) -> std::unique_ptr<tensor::Work> {
      run(call);
      return nullptr;
    };
  }
  PendingCollective pending() const {
    return again_ ? &PendingCollectives::again : &PendingCollectives::forward;
  }
  Node& add(Node node) {
    node.again = again_;
    node.module = module_;
    node.block = block_;
    node.number = nodes_.size();
    return nodes_.emplace_back(std::move(node));
  }
  Node& add_collective(Node node) {
    node.kind = Node::Kind::collective;
    node.brief = true;
    return add(std::move(node));
  }

  const bool is_divided_, is_split_;
  bool again_ = false;
  std::optional<Module> module_;
  std::size_t block_ = 0;
  std::vector<Node> nodes_;
};

}  // namespace troupe::stages
