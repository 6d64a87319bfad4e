#include <tuple>

#include "tests/cuda/nccl_members.h"

namespace troupe::test {

/// One group on NCCL, which adds in member order.
class OrderedNcclMembers : public NcclMembers {
 public:
  explicit OrderedNcclMembers(int size) : NcclMembers(size) {
    for (auto& member : make_ready({.name = "replicas"})) groups.push_back(std::move(member.group));
  }
};

using GroupWorlds = std::tuple<OrderedNcclMembers>;

}  // namespace troupe::test

#include "tests/contract/group_contract.h"
