#pragma once

#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <vector>

#include "transport/node/ucx_node.h"

namespace troupe::bench {

/// Processes of this program, one per rank, each connected to all others over UCX. They answer
/// orders from the process that made them, which has no rank and no UCX.
class RankProcesses {
 public:
  /// Answers an order; an exception ends all processes.
  using Answer = std::function<nlohmann::json(const nlohmann::json& order)>;
  /// Makes the function that answers for a rank, in the rank's own process. `node` is connected.
  using MakeAnswer = std::function<Answer(int rank, transport::UcxNode& node)>;

  /// Forks the processes, so the caller must have one thread only. Throws Error{unavailable} when a
  /// rank ends early.
  RankProcesses(int ranks, const MakeAnswer& make_answer);
  ~RankProcesses();
  RankProcesses(const RankProcesses&) = delete;
  RankProcesses& operator=(const RankProcesses&) = delete;

  /// Sends the order to every rank. Returns the answers by rank once all are here.
  std::vector<nlohmann::json> ask(const nlohmann::json& order);

 private:
  std::vector<int> sockets_;
  std::vector<int> pids_;
};

}  // namespace troupe::bench
