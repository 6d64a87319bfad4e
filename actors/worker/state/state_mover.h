#pragma once

#include <map>
#include <vector>

#include "actors/topology/state/state_parts.h"
#include "actors/topology/state/state_plan.h"
#include "actors/worker/state/unit_state.h"
#include "transport/edges/channel.h"

namespace troupe::actors {

/// One member's part in a state plan: what it gives and what it takes, over separate edges. All
/// members perform the moves in the plan's order, so that they cannot wait in a circle. A member
/// need not know the moves of others.
class StateMover {
 public:
  using Units = std::map<int, UnitState>;  ///< by unit
  /// The state in this member's memory: `own` by part of the configuration before, `copies` that it
  /// holds in host memory, by rank and part of that configuration, and `into` of the new stage, by
  /// part of the new configuration.
  struct Memory {
    std::map<int, Units> own;
    std::map<int, std::map<int, Units>> copies;
    std::map<int, Units> into;
    bool in_place = false;     ///< `into` and `own` are the same memory
    bool own_on_host = false;  ///< `own` lies in host memory (ParkedState)
  };

  /// `shape` is that of the new configuration. All references outlive the mover.
  StateMover(const StatePlan& plan, const RunSpec& spec, const ClusterShape& shape, int member,
             tensor::Device& device)
      : plan_(plan),
        model_(spec.model),
        from_(spec, plan.kept),
        to_(spec, shape),
        member_(member),
        stream_(device.make_stream()),
        copies_(device) {}

  /// The edges that begin or end at this member, between members of the new configuration. Empty if
  /// it neither sends nor receives state.
  std::vector<transport::Edge> edges() const;
  /// The members that this one sends state to or receives it from.
  std::vector<int> peers() const;
  /// Performs the moves. When it returns, every unit that this member takes is in place, and every
  /// unit that it gives has been sent. The channel is open on edges(), if there are any.
  void perform(const Memory& memory, transport::Channel& channel);

 private:
  void give(const TensorRow& from, bool is_held, int to, transport::Channel& channel);
  void take(const TensorRow& into, int from, transport::Channel& channel);
  void copy(const TensorRow& from, bool is_held, const TensorRow& into);
  transport::MessageKey next_key(int from, int to);
  /// The elements of a move that go into a part, as they lie in these units.
  TensorRow row_of(const Units& units, const StateMove& move, int into) const;
  TensorRow row_from(const Memory& memory, const StateMove& move) const;
  TensorRow row_into(const Memory& memory, const StateMove& move) const;

  const StatePlan& plan_;
  const stages::ModelConfig& model_;
  const StateParts from_, to_;
  const int member_;
  const std::unique_ptr<tensor::Stream> stream_;  ///< of copies from stage to stage
  tensor::HostCopies copies_;
  std::map<std::pair<int, int>, int> pieces_;  ///< pieces sent or received so far, by edge
};

}  // namespace troupe::actors
