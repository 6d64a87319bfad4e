#include "tests/hosts/lab.h"

#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <filesystem>

#include "tests/support/small_manifest.h"
#include "tests/support/troupe_program.h"

// Tests of the lab itself: what a test of many hosts relies on.

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(lab_test)

namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

Words python_words(const std::string& program, const Words& arguments) {
  Words words{"python3", "-u", "-c", "import socket, sys, time\n" + program};
  words.insert(words.end(), arguments.begin(), arguments.end());
  return words;
}

/// Accepts one connection, says so, and then answers each byte by itself.
HostProgram echo(const Lab& lab, int host) {
  return {lab, host,
          python_words("with socket.create_server(('', 7000)) as server:\n"
                       "  print('listens')\n"
                       "  peer = server.accept()[0]\n"
                       "while (data := peer.recv(65536)): peer.sendall(data)\n",
                       {})};
}

/// Connects, says "echoed" if a byte comes back, and then reads until the connection ends.
HostProgram reader(const Lab& lab, int host, const std::string& server) {
  return {lab, host,
          python_words("peer = socket.create_connection((sys.argv[1], 7000))\n"
                       "peer.sendall(b'x'); print('echoed', peer.recv(1))\n"
                       "try: print('end', peer.recv(1))\n"
                       "except OSError as error: print('reset', error)\n",
                       {server})};
}

/// How a connection to another host's SSH server ends within so many seconds: 0, or 124 if nothing
/// is heard.
int connected(const Lab& lab, int from, const std::string& to, int seconds) {
  return lab
      .run(from, {"timeout", std::to_string(seconds), "bash", "-c", "< /dev/tcp/" + to + "/22"})
      .exit_code;
}
bool reaches(const Lab& lab, int from, const std::string& to) {
  return connected(lab, from, to, 60) == 0;
}
bool hears_nothing(const Lab& lab, int from, const std::string& to) {
  return connected(lab, from, to, 1) == 124;
}

Finished by_ssh(const Lab& lab, int from, const std::string& to, const Words& command) {
  Words words = Lab::ssh();
  words.push_back(to);
  words.insert(words.end(), command.begin(), command.end());
  return lab.run(from, words);
}

/// What a command line of the shell prints on a host.
std::string said(const Lab& lab, int host, const std::string& command) {
  const Finished done = lab.run(host, {"sh", "-c", command});
  BOOST_TEST(done.exit_code == 0, done.err);
  return done.out;
}

/// The first processes of a lab's hosts, those of a program of host 0, and the lab's own.
std::vector<pid_t> pids_of(const Lab& lab, int hosts) {
  std::vector<pid_t> pids{lab.pid()};
  for (int host = 0; host < hosts; ++host) pids.push_back(lab.first_process(host));
  for (const Lab::Process& process : lab.processes(0)) pids.push_back(process.pid);
  return pids;
}

}  // namespace

BOOST_AUTO_TEST_CASE(hosts_are_apart_and_reach_each_other) {
  Lab lab(3);
  lab.start_ssh();
  for (const int host : {0, 1, 2}) {
    const std::string name = "h" + std::to_string(host),
                      next = "h" + std::to_string((host + 1) % 3);
    BOOST_TEST(said(lab, host, "hostname") == name + "\n");
    BOOST_TEST(said(lab, host, "ls /dev/shm; touch /dev/shm/mine; cd /sys/class/net; echo *") ==
               "eth0 lo\n");
    BOOST_TEST(reaches(lab, host, next));
    BOOST_TEST(reaches(lab, host, next + "-v6"));
    const Finished there = by_ssh(lab, host, next, {"hostname"});
    BOOST_TEST(there.out == next + "\n", there.err);
  }
  const auto clock = [&](int host) {
    return std::stod(said(lab, host, "python3 -c 'import time; print(time.monotonic())'"));
  };
  BOOST_TEST(clock(1) - clock(0) > 500);
  const HostProgram sleeper(lab, 1, {"sleep", "1000000"});
  const pid_t pid = sleeper.pid();
  while (content_of("/proc/" + std::to_string(pid) + "/comm") != "sleep\n") sched_yield();
  const std::string all = "cat /proc/[0-9]*/cmdline | tr '\\0' ' '";
  BOOST_TEST(said(lab, 1, all).find("sleep 1000000") != std::string::npos);
  BOOST_TEST(said(lab, 2, all).find("sleep 1000000") == std::string::npos);
  BOOST_TEST(lab.processes(1).size() == 1u);
  BOOST_TEST(lab.processes(1).at(0).pid == pid);
  BOOST_TEST(lab.processes(1).at(0).command == "sleep 1000000 ");
  BOOST_TEST(lab.processes(2).empty());
}

BOOST_AUTO_TEST_CASE(a_host_that_is_not_cut_off_says_goodbye) {
  Lab lab(2);
  HostProgram server = echo(lab, 1);
  BOOST_REQUIRE(server.read_until("listens"));
  HostProgram client = reader(lab, 0, "h1");
  BOOST_REQUIRE(client.read_until("echoed"));
  server.signal(SIGKILL);
  BOOST_TEST(client.read_line() == "end b''\n");
}

BOOST_AUTO_TEST_CASE(a_cut_cable_is_silent_until_it_is_healed) {
  Lab lab(3);
  lab.start_ssh();
  HostProgram server = echo(lab, 1);
  BOOST_REQUIRE(server.read_until("listens"));
  HostProgram client = reader(lab, 0, "h1");
  BOOST_REQUIRE(client.read_until("echoed"));
  const pid_t reading = client.pid();
  lab.cut(1);
  server.signal(SIGKILL);
  BOOST_TEST(server.finish().exit_code == 128 + SIGKILL);
  // Were there a goodbye, it would have come before all that a third host and the client's say.
  BOOST_TEST(by_ssh(lab, 2, "h0", {"hostname"}).out == "h0\n");
  BOOST_TEST(hears_nothing(lab, 0, "h1"));
  BOOST_TEST(is_alive(reading));
  lab.heal(1);
  BOOST_TEST(client.read_line() == "end b''\n");
  BOOST_TEST(reaches(lab, 0, "h1"));
}

BOOST_AUTO_TEST_CASE(a_host_without_power_says_nothing_and_comes_back_with_nothing) {
  Lab lab(2);
  lab.start_ssh();
  HostProgram server = echo(lab, 1);
  BOOST_REQUIRE(server.read_until("listens"));
  HostProgram client = reader(lab, 0, "h1");
  BOOST_REQUIRE(client.read_until("echoed"));
  said(lab, 1, "touch /dev/shm/mine");
  const pid_t answering = server.pid(), reading = client.pid();
  lab.poweroff(1);
  BOOST_TEST(!is_alive(answering));
  BOOST_CHECK_THROW(lab.heal(1), std::runtime_error);
  lab.boot(1);
  BOOST_TEST(lab.processes(1).empty());
  BOOST_TEST(said(lab, 1, "ls /dev/shm") == "");
  const Finished back = by_ssh(lab, 0, "h1", {"hostname"});
  BOOST_TEST(back.out == "h1\n", back.err);
  BOOST_TEST(is_alive(reading));
}

BOOST_AUTO_TEST_CASE(two_hosts_lose_each_other_and_nobody_else) {
  Lab lab(3);
  lab.start_ssh();
  lab.drop(0, 1);
  BOOST_TEST(hears_nothing(lab, 0, "h1"));
  BOOST_TEST(hears_nothing(lab, 1, "h0-v6"));
  BOOST_TEST(reaches(lab, 2, "h0"));
  BOOST_TEST(reaches(lab, 2, "h1-v6"));
  BOOST_TEST(reaches(lab, 0, "h2-v6"));
  BOOST_TEST(reaches(lab, 1, "h2"));
  lab.undrop();
  BOOST_TEST(reaches(lab, 0, "h1"));
}

BOOST_AUTO_TEST_CASE(a_link_loses_and_is_slow_as_it_is_told) {
  Lab lab(2);
  lab.start_ssh();
  lab.loss(1, 1000);
  BOOST_TEST(hears_nothing(lab, 0, "h1"));
  lab.loss(1, 0);
  BOOST_TEST(reaches(lab, 0, "h1"));
  lab.loss(1, 50);  // heard in spite of it
  BOOST_TEST(by_ssh(lab, 0, "h1", {"hostname"}).out == "h1\n");
  lab.loss(1, 0);
  lab.rate(1, 8);
  const auto begin = std::chrono::steady_clock::now();
  BOOST_TEST(by_ssh(lab, 0, "h1", {"head", "-c", "1000000", "/dev/zero"}).out.size() == 1000000u);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  BOOST_TEST(took.count() > 0.8);  // a megabyte a second, but for a first burst
  lab.rate(1, 0);
}

BOOST_AUTO_TEST_CASE(a_host_may_have_files_of_its_own) {
  const TempDir dir;
  dir.write("shared", "");
  const std::string list = "ls " + dir.path().string();
  Lab lab(2);
  lab.make_private(1, dir.path().string());
  BOOST_TEST(said(lab, 0, list) == "shared\n");
  BOOST_TEST(said(lab, 1, list) == "");
}

BOOST_AUTO_TEST_CASE(a_run_trains_on_a_host_as_on_this_machine) {
  const Workplace place;
  const Lab lab(1);
  for (const char* name : {"there", "here"}) {
    const auto words = troupe_words({"launch", place.manifest(name, {{"mesh.pp", "2"}})});
    const Finished done =
        name == std::string("there") ? lab.run(0, words) : Program(words).finish();
    BOOST_TEST(done.exit_code == 0, done.err);
  }
  BOOST_TEST((step_numbers(place.run("there")) == step_numbers(place.run("here"))));
}

BOOST_AUTO_TEST_CASE(labs_beside_each_other_do_not_meet) {
  Lab one(1), other(2);
  other.start_ssh();
  BOOST_TEST(said(one, 0, "cat /etc/hosts | wc -l") == "5\n");
  BOOST_TEST(connected(one, 0, Lab::address(1), 1) != 0);
  BOOST_TEST(reaches(other, 0, "h1"));
}

BOOST_AUTO_TEST_CASE(nothing_is_left_of_a_lab) {
  const std::string interfaces = content_of("/proc/net/dev");
  std::vector<pid_t> pids;
  {
    Lab lab(2);
    const HostProgram sleeper(lab, 0, {"sleep", "1000000"});
    sleeper.pid();
    BOOST_TEST(content_of("/proc/net/dev").find("lab:") == std::string::npos);
    pids = pids_of(lab, 2);
    BOOST_TEST(pids.size() == 4u);
  }
  for (const pid_t pid : pids) BOOST_TEST(!is_alive(pid));
  BOOST_TEST(!fs::exists("/run/lab"));
}

BOOST_AUTO_TEST_CASE(nothing_is_left_of_a_lab_whose_test_is_killed) {
  // The child tells of its lab and waits to be killed.
  std::array<int, 2> ready{};
  BOOST_REQUIRE(pipe(ready.data()) == 0);
  const pid_t test = fork();
  if (test == 0) {
    Lab lab(2);
    lab.start_ssh();
    const HostProgram sleeper(lab, 0, {"sleep", "1000000"});
    sleeper.pid();
    for (const pid_t pid : pids_of(lab, 2))
      if (write(ready[1], &pid, sizeof pid) != sizeof pid) _exit(1);
    for (;;) pause();
  }
  std::vector<pid_t> pids(4);
  for (pid_t& pid : pids) BOOST_REQUIRE(read(ready[0], &pid, sizeof pid) == sizeof pid);
  for (const pid_t pid : pids) BOOST_TEST(is_alive(pid));
  kill(test, SIGKILL);
  waitpid(test, nullptr, 0);
  while (std::ranges::any_of(pids, is_alive)) sched_yield();
}

// A tool's line in ~/.bashrc has waited there for a lock that a host without power had left.
BOOST_AUTO_TEST_CASE(a_shell_that_ssh_starts_reads_nothing_of_the_users) {
  Lab lab(2);
  lab.start_ssh();
  const Finished done = by_ssh(lab, 0, "h1", {"test ! -s ~/.bashrc && test ! -s ~/.zshenv"});
  BOOST_TEST(done.exit_code == 0, done.err);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test
