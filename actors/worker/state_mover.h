#pragma once

#include <map>
#include <vector>

#include "actors/topology/state_plan.h"
#include "actors/worker/unit_state.h"
#include "transport/channel.h"

namespace troupe::actors {

/// One member's part in a state plan: what it gives and what it takes, over edges of their own.
/// All members perform the plan's moves in its order, so that nobody waits in a circle. A member
/// need not know the moves of others.
class StateMover {
 public:
  /// Where units lie in this member: its own state's, and those of the copies it holds, by rank of
  /// the epoch before. `into`: the new stage's.
  struct Memory {
    std::map<int, TensorRow> own;
    std::map<int, std::map<int, TensorRow>> copies;
    std::map<int, TensorRow> into;
    bool in_place = false;  ///< `into` is `own`
  };

  StateMover(const StatePlan& plan, int member, tensor::Device& device)
      : plan_(plan), member_(member), device_(device), stream_(device.make_stream()) {}

  /// Edges that begin or end here, in members of the new epoch. Empty: nothing has to travel.
  std::vector<transport::Edge> edges() const;
  /// Members that something travels to or from.
  std::vector<int> peers() const;
  /// Every unit this member takes is in place when it returns, and every one it gives has left.
  /// The channel is open on edges(), if there are any.
  void perform(const Memory& memory, transport::Channel& channel);

 private:
  void give(const TensorRow& from, int to, transport::Channel& channel);
  void take(const TensorRow& into, int from, transport::Channel& channel);
  void copy(const TensorRow& from, const TensorRow& into);
  transport::MessageKey next_key(int from, int to);

  const StatePlan& plan_;
  const int member_;
  tensor::Device& device_;
  const std::unique_ptr<tensor::Stream> stream_;
  std::map<std::pair<int, int>, int> pieces_;  ///< so far, by edge
};

}  // namespace troupe::actors
