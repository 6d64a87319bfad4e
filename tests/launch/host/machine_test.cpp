#include "launch/host/machine.h"

#include <sched.h>

#include <boost/test/unit_test.hpp>

#include "launch/host/signals.h"
#include "launch/manifest/resolve/tokenizing.h"
#include "tests/support/temp_dir.h"

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(machine_test)

namespace {

constexpr std::int64_t kMemory = std::int64_t{1} << 36;

/// A machine of 8 cores with two threads each as a control group with these limits leaves it.
launch::Machine within(const std::string& memory, const std::string& cpu) {
  const TempDir root;
  std::filesystem::create_directories(root / "proc/self");
  std::filesystem::create_directories(root / "sys/fs/cgroup/job");
  root.write("proc/self/cgroup", "0::/job\n");
  root.write("sys/fs/cgroup/job/memory.max", memory);
  root.write("sys/fs/cgroup/job/cpu.max", cpu);
  return launch::limited({.free_cores = 8, .free_threads = 16, .memory_bytes = kMemory},
                         actors::ControlGroups(root.path()));
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_group_without_limits_leaves_the_machine_as_it_is) {
  const launch::Machine machine = within("max", "max 100000");
  BOOST_TEST(machine.free_cores == 8);
  BOOST_TEST(machine.free_threads == 16);
  BOOST_TEST(machine.own_cores() == 8);
  BOOST_TEST(machine.memory_bytes == kMemory);
  BOOST_TEST(!machine.memory_is_limited);
  BOOST_TEST(within("max", "800000 100000").own_cores() == 8);
}

/// Ranks compute on the rounded quota, and none is bound to a core or polls on it.
BOOST_AUTO_TEST_CASE(a_quota_counts_as_cores_that_nobody_has_alone) {
  const launch::Machine machine = within("41943040", "250000 100000");
  BOOST_TEST(machine.free_cores == 3);
  BOOST_TEST(machine.free_threads == 3);
  BOOST_TEST(machine.own_cores() == 0);
  BOOST_TEST(machine.cpu_quota.value() == 2.5);
  BOOST_TEST(machine.memory_bytes == 41943040);
  BOOST_TEST(machine.memory_is_limited);
  BOOST_TEST(within("max", "50000 100000").free_cores == 1);
  BOOST_TEST(within("max", "1000000 100000").free_threads == 10);
}

BOOST_AUTO_TEST_CASE(text_is_tokenized_with_as_many_threads_as_the_process_may_use) {
  cpu_set_t before;
  BOOST_REQUIRE(sched_getaffinity(0, sizeof before, &before) == 0);
  int first = 0;
  while (!CPU_ISSET(first, &before)) ++first;
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(first, &one);
  BOOST_REQUIRE(sched_setaffinity(0, sizeof one, &one) == 0);
  launch::SignalWatch signals("");
  const int threads = launch::Tokenizing(signals, launch::Tokenizing::Quiet::yes).options().threads;
  BOOST_REQUIRE(sched_setaffinity(0, sizeof before, &before) == 0);
  BOOST_TEST(threads == 1);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test
