#include "launch/host/machine.h"

#include <boost/test/unit_test.hpp>

#include "tests/support/temp_dir.h"

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(machine_test)

namespace {

constexpr std::int64_t kMemory = std::int64_t{1} << 36;

/// A machine of 8 cores as a control group with these limits leaves it.
launch::Machine within(const std::string& memory, const std::string& cpu) {
  const TempDir root;
  std::filesystem::create_directories(root / "proc/self");
  std::filesystem::create_directories(root / "sys/fs/cgroup/job");
  root.write("proc/self/cgroup", "0::/job\n");
  root.write("sys/fs/cgroup/job/memory.max", memory);
  root.write("sys/fs/cgroup/job/cpu.max", cpu);
  return launch::limited({.free_cores = 8, .memory_bytes = kMemory},
                         actors::ControlGroups(root.path()));
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_group_without_limits_leaves_the_machine_as_it_is) {
  const launch::Machine machine = within("max", "max 100000");
  BOOST_TEST(machine.free_cores == 8);
  BOOST_TEST(machine.own_cores() == 8);
  BOOST_TEST(machine.memory_bytes == kMemory);
  BOOST_TEST(!machine.memory_is_limited);
  BOOST_TEST(within("max", "800000 100000").own_cores() == 8);
}

/// Ranks compute on the rounded quota, and none is bound to a core or polls on it.
BOOST_AUTO_TEST_CASE(a_quota_counts_as_cores_that_nobody_has_alone) {
  const launch::Machine machine = within("41943040", "250000 100000");
  BOOST_TEST(machine.free_cores == 3);
  BOOST_TEST(machine.own_cores() == 0);
  BOOST_TEST(machine.cpu_quota.value() == 2.5);
  BOOST_TEST(machine.memory_bytes == 41943040);
  BOOST_TEST(machine.memory_is_limited);
  BOOST_TEST(within("max", "50000 100000").free_cores == 1);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test
