#include "launch/commands/runs/diagnosis.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <boost/test/unit_test.hpp>

#include "launch/commands/doctor.h"

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

namespace {

/// Four ranks of one stage, two each on h1 and h2.
json on_two_hosts() {
  json status{{"ranks", json::array()},
              {"hosts",
               {{{"host", "h1"}, {"state", "joined"}, {"ranks", {0, 1}}},
                {{"host", "h2"}, {"state", "joined"}, {"ranks", {2, 3}}}}}};
  for (int rank = 0; rank < 4; ++rank) {
    status["ranks"].push_back(rank_of(100, rank < 2 ? "h1" : "h2"));
    status["ranks"].back()["rank"] = status["ranks"].back()["replica"] = rank;
  }
  return status;
}

json slow(int replica, double busy_s) {
  return {{"replica", replica}, {"stage", 1},       {"shard", 0},
          {"score", 2.5},       {"busy_s", busy_s}, {"usual_busy_s", 0.01}};
}

}  // namespace

BOOST_AUTO_TEST_CASE(what_is_wrong_with_a_host_is_one_finding) {
  json status = on_two_hosts();
  BOOST_TEST(diagnose(status).empty());
  status["stragglers"] = {slow(3, 0.02), slow(2, 0.04)};
  auto findings = diagnose(status);
  BOOST_REQUIRE(findings.size() == 1u);
  BOOST_TEST(findings[0] ==
             "host h2 is slow: 2 of its 2 ranks (2-3) compute 3.0 times as long as expected, 60 ms "
             "a step instead of 20 ms; see what else runs there");
  status["stragglers"] = {slow(0, 0.03)};
  findings = diagnose(status);
  BOOST_REQUIRE(findings.size() == 1u);
  BOOST_TEST(findings[0].starts_with("host h1 is slow: 1 of its 2 ranks (0) computes 3.0 times"));
}

BOOST_AUTO_TEST_CASE(what_a_cluster_regroups_for_is_named_if_it_is_known) {
  json status{{"state", "regrouping"}};
  BOOST_TEST(diagnose(status).at(0).find("events.jsonl") != std::string::npos);
  status["failure"] = "rank 1: the connection to rank 2 is lost";
  BOOST_TEST(diagnose(status).at(0) ==
             "the cluster regroups: rank 1: the connection to rank 2 is lost");
}

BOOST_AUTO_TEST_CASE(a_lost_host_stands_for_its_ranks) {
  json status = on_two_hosts();
  json& host = status["hosts"][1];
  host["state"] = "lost";
  host["cause"] = "nothing heard for 3 s";
  for (json& rank : status["ranks"])
    if (rank["host"] == "h2") rank["state"] = "lost";
  auto findings = diagnose(status);
  BOOST_REQUIRE(findings.size() == 1u);
  BOOST_TEST(findings[0] ==
             "host h2 is lost: nothing heard for 3 s; with it ranks 2-3; it is used again once an "
             "agent joins from it");
  // Its ranks are elsewhere by now.
  host["ranks"] = json::array();
  for (json& rank : status["ranks"]) rank["host"] = "h1", rank["state"] = "running";
  findings = diagnose(status);
  BOOST_REQUIRE(findings.size() == 1u);
  BOOST_TEST(findings[0].find("with it") == std::string::npos);
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
