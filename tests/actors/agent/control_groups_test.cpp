#include "actors/agent/control_groups.h"

#include <boost/test/unit_test.hpp>
#include <cmath>

#include "tests/support/temp_dir.h"

namespace troupe::actors {

BOOST_AUTO_TEST_SUITE(control_groups_test)

namespace {

/// A tree with the files of a kernel that tell of control groups.
struct Machine {
  test::TempDir root;
  void has(const std::string& path, const std::string& content) const {
    std::filesystem::create_directories((root / path).parent_path());
    root.write(path, content + "\n");
  }
  ControlGroups groups() const { return ControlGroups(root.path()); }
};

constexpr const char* kMemoryMount =
    "35 31 0:32 / /sys/fs/cgroup/memory rw,relatime shared:9 - cgroup cgroup rw,memory";
constexpr const char* kCpuMount =
    "32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct";

}  // namespace

BOOST_AUTO_TEST_CASE(a_machine_without_groups_limits_nothing) {
  const Machine machine;
  BOOST_TEST(machine.groups().memory_limit() == ControlGroups::kNoLimit);
  BOOST_TEST(std::isinf(machine.groups().cpu_quota()));
  BOOST_TEST(machine.groups().memory_kills() == 0);
  machine.has("proc/vmstat", "oom_kill 4\nballoon_inflate 0");
  BOOST_TEST(machine.groups().memory_kills() == 4);
}

BOOST_AUTO_TEST_CASE(controllers_of_version_1_are_read_where_they_are_mounted) {
  const Machine machine;
  machine.has("proc/self/mountinfo", std::string(kMemoryMount) + "\n" + kCpuMount);
  machine.has("proc/self/cgroup", "4:memory:/job\n2:cpu,cpuacct:/other\n0::/");
  machine.has("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712");
  machine.has("sys/fs/cgroup/memory/job/memory.oom_control", "oom_kill_disable 0\noom_kill 3");
  machine.has("sys/fs/cgroup/cpu,cpuacct/other/cpu.cfs_quota_us", "-1");
  machine.has("sys/fs/cgroup/cpu,cpuacct/other/cpu.cfs_period_us", "100000");
  BOOST_TEST(machine.groups().memory_limit() == ControlGroups::kNoLimit);
  BOOST_TEST(std::isinf(machine.groups().cpu_quota()));
  BOOST_TEST(machine.groups().memory_kills() == 3);
  machine.has("sys/fs/cgroup/memory/job/memory.limit_in_bytes", "41943040");
  machine.has("sys/fs/cgroup/cpu,cpuacct/other/cpu.cfs_quota_us", "50000");
  BOOST_TEST(machine.groups().memory_limit() == 41943040);
  BOOST_TEST(machine.groups().cpu_quota() == 0.5);
}

BOOST_AUTO_TEST_CASE(a_group_of_version_2_has_the_limits_of_those_around_it) {
  const Machine machine;
  machine.has("proc/self/mountinfo", "38 31 0:33 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw");
  machine.has("proc/self/cgroup", "0::/slice/job");
  machine.has("sys/fs/cgroup/slice/job/memory.max", "max");
  machine.has("sys/fs/cgroup/slice/memory.max", "41943040");
  machine.has("sys/fs/cgroup/memory.max", "83886080");
  machine.has("sys/fs/cgroup/slice/job/cpu.max", "150000 100000");
  machine.has("sys/fs/cgroup/slice/cpu.max", "max 100000");
  machine.has("sys/fs/cgroup/slice/job/memory.events", "low 0\noom 1\noom_kill 2");
  BOOST_TEST(machine.groups().memory_limit() == 41943040);
  BOOST_TEST(machine.groups().cpu_quota() == 1.5);
  BOOST_TEST(machine.groups().memory_kills() == 2);
}

/// A container has its own group mounted as the topmost, while its path is the host's.
BOOST_AUTO_TEST_CASE(a_container_sees_its_group_at_the_top) {
  const Machine machine;
  machine.has("proc/self/mountinfo",
              "35 31 0:32 /docker/ab /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory");
  machine.has("sys/fs/cgroup/memory/memory.limit_in_bytes", "83886080");
  machine.has("sys/fs/cgroup/memory/job/memory.limit_in_bytes", "41943040");
  for (const auto& [path, limit] :
       {std::pair("/docker/ab", 83886080), std::pair("/docker/ab/job", 41943040),
        std::pair("/elsewhere", 83886080)}) {
    machine.has("proc/self/cgroup", std::string("4:memory:") + path);
    BOOST_TEST(machine.groups().memory_limit() == limit, path);
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::actors
