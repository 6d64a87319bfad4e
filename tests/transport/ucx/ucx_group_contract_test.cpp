#include <tuple>

#include "tests/transport/ucx/group_members.h"

namespace troupe::test {

using GroupWorlds = std::tuple<GroupMembers>;

}  // namespace troupe::test

#include "tests/contract/group_contract.h"
