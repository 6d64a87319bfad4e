#pragma once

#include <memory>
#include <vector>

#include "transport/node/ucx_node.h"

namespace troupe::test {

/// Connected nodes of several ranks in one process.
class UcxNodes {
 public:
  explicit UcxNodes(int ranks,
                    transport::UcxOptions options = {.environment = transport::prepare_ucx()})
      : options_(options) {
    for (int rank = 0; rank < ranks; ++rank) nodes_.push_back(transport::UcxNode::create(options_));
    for (int rank = 0; rank < ranks; ++rank)
      for (int peer = 0; peer < ranks; ++peer)
        if (peer != rank) node(rank).connect(peer, 1, node(peer).address());
  }
  transport::UcxNode& node(int rank) { return *nodes_.at(static_cast<std::size_t>(rank)); }
  transport::Channel& channel(int rank) { return node(rank).channel(); }

  /// Starts a new life of a rank, connected to all others.
  void restart(int rank, std::uint64_t incarnation) {
    nodes_.at(static_cast<std::size_t>(rank)) = transport::UcxNode::create(options_);
    for (int peer = 0; peer < static_cast<int>(nodes_.size()); ++peer) {
      if (peer == rank) continue;
      node(rank).connect(peer, 1, node(peer).address());
      node(peer).connect(rank, incarnation, node(rank).address());
    }
  }
  /// Ends a rank without telling the others.
  void kill(int rank) { nodes_.at(static_cast<std::size_t>(rank)).reset(); }

 private:
  transport::UcxOptions options_;
  std::vector<std::unique_ptr<transport::UcxNode>> nodes_;
};

}  // namespace troupe::test
