#pragma once

#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <vector>

#include "transport/ucx/ucx_node.h"

namespace troupe::bench {

/// Processes of this program, one a rank, each connected to all others over UCX. They answer orders
/// of the process that made them, which has no rank and no UCX.
class RankProcesses {
 public:
  /// An order's answer; throws to end the whole.
  using Answer = std::function<nlohmann::json(const nlohmann::json& order)>;
  /// Makes a rank's answers, in its own process. `node` is connected.
  using MakeAnswer = std::function<Answer(int rank, transport::UcxNode& node)>;

  /// Forks: the caller has one thread. Throws Error{unavailable} when a rank ends early.
  RankProcesses(int ranks, const MakeAnswer& make_answer);
  ~RankProcesses();
  RankProcesses(const RankProcesses&) = delete;
  RankProcesses& operator=(const RankProcesses&) = delete;

  /// Sends every rank the order; the answers by rank once all are here.
  std::vector<nlohmann::json> ask(const nlohmann::json& order);

 private:
  std::vector<int> sockets_;
  std::vector<int> pids_;
};

}  // namespace troupe::bench
