#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <boost/test/unit_test.hpp>

#include "launch/commands/doctor.h"
#include "launch/commands/runs/status_command.h"

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(diagnosis_test)

namespace {

using launch::diagnose;
using nlohmann::json;

json rank_of(int pid, const std::string& host) {
  return {{"rank", 3},    {"replica", 1},       {"stage", 1},       {"pid", pid},
          {"host", host}, {"state", "running"}, {"waiting_for", ""}};
}

std::string this_host() {
  std::array<char, 256> name{};
  gethostname(name.data(), name.size() - 1);
  return name.data();
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_healthy_run_has_no_findings) {
  BOOST_TEST(
      diagnose({{"state", "running"}, {"ranks", json::array({rank_of(getpid(), this_host())})}})
          .empty());
  // Processes on another host cannot be examined.
  BOOST_TEST(
      diagnose({{"state", "running"}, {"ranks", json::array({rank_of(1 << 22, "elsewhere")})}})
          .empty());
}

BOOST_AUTO_TEST_CASE(files_that_cannot_be_written_are_named) {
  const auto findings = diagnose({{"troubles", {"cannot write metrics.jsonl: no room"}}});
  BOOST_REQUIRE(findings.size() == 1u);
  BOOST_TEST(findings[0] == "cannot write metrics.jsonl: no room");
}

BOOST_AUTO_TEST_CASE(dead_stopped_and_lost_workers_are_named) {
  const pid_t child = fork();
  if (child == 0) {
    raise(SIGSTOP);
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, WUNTRACED);
  auto findings = diagnose({{"ranks", json::array({rank_of(child, this_host())})}});
  BOOST_REQUIRE(findings.size() == 1u);
  BOOST_TEST(findings[0].find("rank 3 (replica 1, stage 1)") != std::string::npos);
  BOOST_TEST(findings[0].find("is stopped") != std::string::npos);
  kill(child, SIGKILL);
  waitpid(child, &status, 0);
  findings = diagnose({{"ranks", json::array({rank_of(child, this_host())})}});
  BOOST_REQUIRE(findings.size() == 1u);
  BOOST_TEST(findings[0].find("is dead") != std::string::npos);
  json lost = rank_of(getpid(), this_host());
  lost["state"] = "lost";
  BOOST_TEST(diagnose({{"ranks", json::array({lost})}}).size() == 1u);
}

BOOST_AUTO_TEST_CASE(slow_monitors_are_told) {
  BOOST_TEST(diagnose({{"monitors", {{"dropped", 5}}}}).size() == 1u);
}

BOOST_AUTO_TEST_CASE(the_doctor_looks_at_what_a_run_needs) {
  std::string all;
  for (const auto& checkup : launch::examine_machine({.fault = "no NVIDIA driver"}))
    all += launch::to_text(checkup);
  for (const char* part : {"cores", "memory", "shared memory", "open files", "loopback",
                           "data plane", "libucp", "no NVIDIA driver"})
    BOOST_TEST(all.find(part) != std::string::npos, part << " is not in\n" << all);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test
