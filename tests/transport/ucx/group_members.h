#pragma once

#include <cstdint>
#include <numeric>
#include <vector>

#include "tests/contract/group_members.h"
#include "tests/transport/ucx/ucx_nodes.h"
#include "transport/collectives/changing_group.h"

namespace troupe::test {

inline constexpr std::uint64_t kGroupRun = 77;

struct NodesOfMembers {
  NodesOfMembers(int size, int ranks_of_host)
      : nodes(size, {.environment = transport::prepare_ucx()}, ranks_of_host) {}
  UcxNodes nodes;
};

/// One group over nodes of this process, which outlive it. On the asynchronous device it is a
/// StagedGroup.
class GroupMembers : public NodesOfMembers, public MemberThreads {
 public:
  explicit GroupMembers(int size, int ranks_of_host = 0)
      : NodesOfMembers(size, ranks_of_host), MemberThreads(size) {
    std::vector<int> ranks(static_cast<std::size_t>(size));
    std::iota(ranks.begin(), ranks.end(), 0);
    for (const int rank : ranks) {
      auto group = nodes.node(rank).make_group(kGroupRun, 1, 5, "replicas", ranks, rank);
      groups.push_back(transport::group_for(device(static_cast<std::size_t>(rank)),
                                            std::move(group), "replicas"));
    }
  }
};

}  // namespace troupe::test
