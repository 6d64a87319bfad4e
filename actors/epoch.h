#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "actors/layout.h"
#include "actors/run_spec.h"

namespace troupe::actors {

/// One worker process in one life. A replacement of a dead worker has the same rank and a new
/// incarnation.
struct Member {
  int rank = 0;
  std::uint64_t incarnation = 0;
  int pid = 0;
  std::string host;
  std::string address;  ///< of its data plane (transport::UcxNode::address)
};

/// A version of the cluster: who takes part and who holds which layers. Everything that recovery or
/// re-scaling changes is here; all else is in the RunSpec. A value, handed to every rank before the
/// epoch starts.
struct Epoch {
  std::uint32_t number = 0;
  RunSpec::Mesh mesh;
  RunSpec::Schedule schedule;
  Layout layout;
  std::vector<Member> members;  ///< by rank

  int num_ranks() const { return mesh.pp * mesh.dp; }
};

/// The epoch a run starts with: layers split evenly over the plan's chunks, no members yet.
Epoch first_epoch(const RunSpec& spec);

}  // namespace troupe::actors
