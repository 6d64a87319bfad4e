#pragma once

#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "transport/node/ucx_node.h"

namespace troupe::test {

/// Connected nodes of several ranks in one process. The first `ranks_of_host` of them are told that
/// they are on one host, the next ones on another, and so on; 0: all are on one.
class UcxNodes {
 public:
  explicit UcxNodes(int ranks,
                    transport::UcxOptions options = {.environment = transport::prepare_ucx()},
                    int ranks_of_host = 0)
      : options_(options), ranks_of_host_(ranks_of_host > 0 ? ranks_of_host : ranks) {
    for (int rank = 0; rank < ranks; ++rank) nodes_.push_back(transport::UcxNode::create(options_));
    for (int rank = 0; rank < ranks; ++rank)
      for (int peer = 0; peer < ranks; ++peer)
        if (peer != rank) connect(rank, peer, 1);
  }
  transport::UcxNode& node(int rank) { return *nodes_.at(static_cast<std::size_t>(rank)); }
  transport::Channel& channel(int rank) { return node(rank).channel(); }

  /// Keeps what the nodes use until they have ended. Called by any thread.
  void keep(std::shared_ptr<const void> used) {
    const std::lock_guard lock(mutex_);
    kept_.push_back(std::move(used));
  }
  /// Starts a new life of a rank, connected to all others.
  void restart(int rank, std::uint64_t incarnation) {
    nodes_.at(static_cast<std::size_t>(rank)) = transport::UcxNode::create(options_);
    for (int peer = 0; peer < static_cast<int>(nodes_.size()); ++peer) {
      if (peer == rank) continue;
      connect(rank, peer, 1);
      connect(peer, rank, incarnation);
    }
  }
  /// Ends a rank without telling the others.
  void kill(int rank) { nodes_.at(static_cast<std::size_t>(rank)).reset(); }

 private:
  void connect(int from, int to, std::uint64_t incarnation) {
    node(from).connect(to, incarnation, node(to).address(),
                       from / ranks_of_host_ == to / ranks_of_host_);
  }

  transport::UcxOptions options_;
  int ranks_of_host_;
  std::mutex mutex_;
  std::vector<std::shared_ptr<const void>> kept_;
  std::vector<std::unique_ptr<transport::UcxNode>> nodes_;
};

}  // namespace troupe::test
