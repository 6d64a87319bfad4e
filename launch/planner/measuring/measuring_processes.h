#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <vector>

#include "transport/node/ucx_node.h"

namespace troupe::launch {

/// Processes of this program that measure at the same time, one for each rank, connected to all
/// others over UCX. They answer orders of the process that made them, which has no rank and no UCX,
/// and end with it.
class MeasuringProcesses {
 public:
  /// Answers an order. An exception ends the process.
  using Answer = std::function<nlohmann::json(const nlohmann::json& order)>;
  /// Makes the function that answers for a rank, in the rank's own process. `node` is connected.
  using MakeAnswer = std::function<Answer(int rank, transport::UcxNode& node)>;

  /// Forks, so that the caller must have one thread only. Throws Error{unavailable} if a process
  /// does not come up, with its rank and the reason.
  MeasuringProcesses(int ranks, const MakeAnswer& make_answer);

  /// Sends the order to every rank. Returns the answers by rank once all are here. Throws
  /// Error{unavailable} as soon as a process has none, with its rank and the reason: what the
  /// exception said, or the signal or code with which it ended. Then all are of no more use.
  std::vector<nlohmann::json> ask(const nlohmann::json& order);

 private:
  /// What each rank says next, by rank, whichever is the first.
  std::vector<nlohmann::json> next_of_all();
  nlohmann::json next_of(std::size_t rank);
  /// How a process that says nothing more has ended.
  std::string end_of(std::size_t rank);

  /// The processes by rank, which end with it.
  struct Children {
    Children() = default;
    ~Children();
    Children(const Children&) = delete;
    Children& operator=(const Children&) = delete;
    std::vector<int> sockets;
    std::vector<int> pids;  ///< -1: it has ended, and been waited for
  } children_;
};

}  // namespace troupe::launch
