#include "actors/agent/processes.h"

#include <sys/ipc.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <fstream>
#include <map>
#include <thread>

#include "actors/messages/secret.h"
#include "tests/support/temp_dir.h"

namespace troupe::actors {

BOOST_AUTO_TEST_SUITE(processes_test)

namespace {

struct Way {
  bool kill = false;
  ControlGroups groups = ControlGroups();
  std::string logs = std::filesystem::temp_directory_path();
};

/// Runs a shell script as `count` workers until all have ended. Returns their exits by number.
std::map<int, WorkerExited> exits_of(const std::string& script, int count, const Way& way = {}) {
  const auto dir = std::filesystem::path(way.logs) / ("troupe-processes-" + random_token());
  std::map<int, WorkerExited> exits;
  LocalProcesses* self = nullptr;
  LocalProcesses processes(
      {"/bin/sh", "-c", script},
      [&](const WorkerExited& exit) {
        exits[static_cast<int>(exit.incarnation) - 7] = exit;
        if (static_cast<int>(exits.size()) == count) self->quit();
      },
      way.groups);
  self = &processes;
  for (int rank = 0; rank < count; ++rank)
    processes.spawn({.host = "h",
                     .port = 1,
                     .token = "t",
                     .id = rank,
                     .incarnation = static_cast<std::uint64_t>(rank) + 7,
                     .log_dir = dir / std::to_string(rank)});
  if (way.kill) processes.kill_all();
  processes.run();
  std::error_code ignored;
  std::filesystem::remove_all(dir, ignored);
  return exits;
}

}  // namespace

/// The time of a worker that computes grows, that of a stopped worker stands still, and there is
/// none for a worker that never was or is gone.
BOOST_AUTO_TEST_CASE(the_processor_time_of_a_worker_is_known_while_it_lives) {
  const test::TempDir dir;
  LocalProcesses* self = nullptr;
  LocalProcesses processes({"/bin/sh", "-c", "while :; do :; done"},
                           [&](const WorkerExited&) { self->quit(); });
  self = &processes;
  BOOST_TEST(processes.cpu_seconds(7) == 0);
  processes.spawn({.host = "h",
                   .port = 1,
                   .token = "t",
                   .id = 0,
                   .incarnation = 7,
                   .log_dir = dir.path().string()});
  std::thread watcher([&] {
    double used = 0;
    for (int grown = 0; grown < 3;)
      if (const double now = processes.cpu_seconds(7); now > used) {
        used = now;
        ++grown;
      }
    processes.kill(7);
  });
  processes.run();
  watcher.join();
  BOOST_TEST(processes.cpu_seconds(7) == 0);
}

BOOST_AUTO_TEST_CASE(exits_are_reported_with_their_cause) {
  BOOST_TEST(exits_of("exit 0", 1)[0].exit_code == 0);
  const auto failed = exits_of("exit 65", 1)[0];
  BOOST_TEST(failed.exit_code == 65);
  BOOST_TEST(failed.cause == "exit code 65");
  BOOST_TEST(failed.incarnation == 7u);
  BOOST_TEST(exits_of("kill -9 $$", 1)[0].cause == "signal 9 (SIGKILL)");
  BOOST_TEST(exits_of("kill -SEGV $$", 1)[0].cause == "signal 11 (SIGSEGV)");
}

/// Of three workers that get the signal, the kernel says it has killed one.
BOOST_AUTO_TEST_CASE(a_kill_for_lack_of_memory_is_named_once) {
  const test::TempDir root;
  std::filesystem::create_directories(root / "proc/self");
  std::filesystem::create_directories(root / "sys/fs/cgroup/job");
  root.write("proc/self/cgroup", "0::/job\n");
  root.write("sys/fs/cgroup/job/memory.max", "41943040\n");
  const std::string events = root.write("sys/fs/cgroup/job/memory.events", "oom 7\noom_kill 7\n");
  const auto exits = exits_of("echo 'oom 8 oom_kill 8' > " + events + "; kill -9 $$", 3,
                              {.groups = ControlGroups(root.path())});
  int named = 0;
  for (const auto& [number, exit] : exits) {
    BOOST_TEST(exit.cause.starts_with("signal 9 (SIGKILL)"));
    if (exit.cause.ends_with("by the kernel for lack of memory (the limit of its control group is "
                             "40 MiB)"))
      ++named;
  }
  BOOST_TEST(named == 1);
}

BOOST_AUTO_TEST_CASE(a_kill_of_another_process_for_lack_of_memory_is_no_workers_cause) {
  MemoryKills kills(7);
  kills.look(8);  // somebody else, or a worker that has not ended yet
  BOOST_TEST(kills.take(8));
  BOOST_TEST(!kills.take(8));
  kills.look(9);
  kills.look(9);  // nobody here has ended since
  BOOST_TEST(!kills.take(9));
  BOOST_TEST(kills.take(10));
  kills.look(10);
  BOOST_TEST(!kills.take(10));
}

BOOST_AUTO_TEST_CASE(the_last_words_of_a_worker_are_its_cause) {
  const std::string log =
      "echo '2026-01-31 12:34:56.789 +01:00 error  no such device'; echo '2026-01-31 12:34:57.000 "
      "+01:00 info "
      "x';";
  BOOST_TEST(exits_of(log + "exit 69", 1)[0].cause == "exit code 69: no such device");
  BOOST_TEST(exits_of(log + "echo 'troupe: it is over' >&2; exit 70", 1)[0].cause ==
             "exit code 70: it is over");
  BOOST_TEST(exits_of(log + "exit 0", 1)[0].cause == "exit code 0");
  BOOST_TEST(exits_of("echo 'what(): none'; kill -ABRT $$", 1)[0].cause ==
             "signal 6 (SIGABRT): what(): none");
  BOOST_TEST(exits_of(log + "kill -9 $$", 1)[0].cause == "signal 9 (SIGKILL)");
}

/// As UCX prints it before it aborts, with its rules.
BOOST_AUTO_TEST_CASE(the_last_words_of_a_worker_are_above_its_backtrace) {
  const std::string fatal = "[h:1:0:1] mm_ep.c:80  Fatal: cannot attach the segment";
  const std::string trace =
      "echo '" + fatal +
      "'; echo '==== backtrace (tid:      1) ===='; echo ' 0  /lib/libucs.so.0(ucs_handle_error"
      "+0x2fd) [0x7f5f]'; echo '================================='; ";
  BOOST_TEST(exits_of(trace + "kill -ABRT $$", 1)[0].cause == "signal 6 (SIGABRT): " + fatal);
  // What comes after it counts again.
  BOOST_TEST(exits_of(trace + "echo 'no way out'; exit 1", 1)[0].cause ==
             "exit code 1: no way out");
  BOOST_TEST(exits_of("echo '----'; exit 1", 1)[0].cause == "exit code 1");
}

BOOST_AUTO_TEST_CASE(a_worker_reads_its_bootstrap_on_standard_input) {
  // The fourth line is the rank: each process ends with its own.
  const auto exits = exits_of("for i in 1 2 3 4; do read x; done; exit $x", 3);
  for (int rank = 0; rank < 3; ++rank)
    BOOST_TEST(exits.at(rank).cause == "exit code " + std::to_string(rank));
}

#ifndef __SANITIZE_ADDRESS__  // UBSan, which comes with it, needs pipes to look at memory
BOOST_AUTO_TEST_CASE(a_worker_that_cannot_be_started_has_ended) {
  rlimit before{};
  BOOST_REQUIRE(::getrlimit(RLIMIT_NOFILE, &before) == 0);
  const int next_fd = ::dup(STDIN_FILENO);
  ::close(next_fd);
  // Room for the log and the event descriptor, but not for a pipe.
  const rlimit tight{.rlim_cur = static_cast<rlim_t>(next_fd) + 2, .rlim_max = before.rlim_max};
  ::setrlimit(RLIMIT_NOFILE, &tight);
  const auto exits = exits_of("exit 0", 3);
  ::setrlimit(RLIMIT_NOFILE, &before);
  BOOST_TEST(exits.size() == 3u);
  for (const auto& [worker, exit] : exits) {
    BOOST_TEST(exit.cause.starts_with(
        "a failed start: cannot make a pipe: no descriptor left (ulimit -n allows a process "));
    BOOST_TEST(exit.exit_code == 69);
  }
}
#endif

BOOST_AUTO_TEST_CASE(a_worker_starts_without_a_log_where_there_is_no_room_for_one) {
  BOOST_TEST(exits_of("echo nobody reads it", 1, {.logs = "/dev/null/logs"})[0].exit_code == 0);
}

BOOST_AUTO_TEST_CASE(a_worker_may_end_without_reading_its_bootstrap) {
  // There are so many that some end before their parent goes on, which must not harm the parent.
  const auto exits = exits_of("exit 3", 200);
  for (const auto& [rank, exit] : exits) BOOST_TEST(exit.cause == "exit code 3");
}

BOOST_AUTO_TEST_CASE(shared_memory_that_a_worker_leaves_is_removed) {
  const test::TempDir dir;
  const std::string said = dir / "said";
  // The worker makes a segment and does not attach it.
  BOOST_TEST(exits_of("exec ipcmk --shmem 4096 >" + said, 1)[0].exit_code == 0);
  std::ifstream file(said);
  std::string words;
  std::getline(file, words);
  const auto digits = words.find_first_of("0123456789");
  BOOST_REQUIRE_MESSAGE(digits != std::string::npos, words);
  shmid_ds status{};
  BOOST_TEST(shmctl(std::stoi(words.substr(digits)), IPC_STAT, &status) == -1);
}

BOOST_AUTO_TEST_CASE(kill_all_ends_what_would_not_end) {
  const auto exits = exits_of("while :; do sleep 100; done", 2, {.kill = true});
  BOOST_TEST(exits.at(0).cause == "signal 9 (SIGKILL)");
  BOOST_TEST(exits.at(1).cause == "signal 9 (SIGKILL)");
}

BOOST_AUTO_TEST_CASE(bootstraps_survive_their_text) {
  const WorkerBootstrap bootstrap{.host = "127.0.0.1",
                                  .port = 4711,
                                  .token = random_token(),
                                  .id = 3,
                                  .incarnation = random_u64(),
                                  .cores = 12,
                                  .device = "",
                                  .ports = "29600-29700",
                                  .log_dir = "/a dir/with spaces",
                                  .failed_gpus = {"GPU-1", "GPU-2"}};
  const WorkerBootstrap copy = parse_bootstrap(to_text(bootstrap));
  BOOST_TEST(copy.host == bootstrap.host);
  BOOST_TEST(copy.port == bootstrap.port);
  BOOST_TEST(copy.token == bootstrap.token);
  BOOST_TEST(copy.incarnation == bootstrap.incarnation);
  BOOST_TEST(copy.cores == bootstrap.cores);
  BOOST_TEST(copy.device == bootstrap.device);
  BOOST_TEST(copy.ports == bootstrap.ports);
  BOOST_TEST(copy.log_dir == bootstrap.log_dir);
  BOOST_TEST((copy.failed_gpus == bootstrap.failed_gpus));
  BOOST_TEST(parse_bootstrap(to_text(WorkerBootstrap{.token = "t"})).failed_gpus.empty());
  for (const char* text : {"", "h\n", "h\nx\nt\n0\n1\n2\n\n\nd\n", "\n\n\n\n\n"})
    BOOST_CHECK_THROW(parse_bootstrap(text), std::exception);
}

BOOST_AUTO_TEST_CASE(secrets_compare_by_value) {
  const std::string token = random_token();
  BOOST_TEST(token.size() == 32u);
  BOOST_TEST(equal_secrets(token, std::string(token)));
  BOOST_TEST(!equal_secrets(token, random_token()));
  BOOST_TEST(!equal_secrets(token, token.substr(1)));
  BOOST_TEST(!equal_secrets(token, ""));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::actors
