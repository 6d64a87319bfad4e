#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <thread>

#include "tests/support/small_manifest.h"
#include "tests/support/troupe_program.h"

// Tests output that cannot be written: on a full disk, or into a pipe that is never read.

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(output_test)

namespace {

namespace fs = std::filesystem;

constexpr int kUnwritten = 65;

using Words = std::vector<std::string>;

/// Runs the program with this descriptor as its standard output.
Finished troupe_into(int out, const Words& arguments) {
  const TempDir dir;
  const std::string err = (dir / "err").string();
  const char* binary = std::getenv("TROUPE_BINARY");
  Words words = on_test_device(arguments);
  words.insert(words.begin(), binary);
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  const pid_t pid = fork();
  if (pid == 0) {
    dup2(out, STDOUT_FILENO);
    dup2(open(err.c_str(), O_WRONLY | O_CREAT, 0600), STDERR_FILENO);
    signal(SIGPIPE, SIG_IGN);
    execv(binary, argv.data());
    _exit(127);
  }
  int status = 0;
  waitpid(pid, &status, 0);
  return {.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status),
          .out = "",
          .err = content_of(err)};
}

struct FullDisk {
  ~FullDisk() { close(fd); }
  const int fd = open("/dev/full", O_WRONLY);
};

/// Names of the commands that --help lists.
std::set<std::string> all_commands() {
  std::istringstream help(troupe({"--help"}).out);
  std::set<std::string> names;
  bool listed = false;
  for (std::string line; std::getline(help, line);) {
    if (listed && line.starts_with("  ") && line[2] != ' ')
      names.insert(line.substr(2, line.find(' ', 2) - 2));
    listed |= line.find("ubcommands:") != std::string::npos;
  }
  return names;
}

/// All command lines that print something. The run `live` goes on until it is stopped, the run
/// `done` has ended.
std::vector<Words> all_ways(const Workplace& place, const std::string& live,
                            const std::string& done) {
  const std::string manifest = place.manifest("new"), corpus = (place.dir / "corpus.txt").string();
  const std::string saved = place.checkpoint("done", 6);
  const std::string exported = (place.dir / "exported").string();
  const std::string ids = (place.dir / "ids.jsonl").string();
  std::ofstream(ids) << "[1, 2]\n";
  return {{"--help"},
          {"--version"},
          {"plan", "--help"},
          {"plan", manifest},
          {"plan", manifest, "--json"},
          {"plan", manifest, "--machine", "h100-sxm"},
          {"plan", manifest, "--machine", "h100-sxm", "--devices", "2", "--search"},
          {"launch", manifest},
          {"status", done},
          {"status", done, "--json"},
          {"status", done, "--diagnose"},
          {"status", live},
          {"status", live, "--json"},
          {"status", live, "--diagnose"},
          {"attach", live, "--json"},
          {"tap", live, "--edge", "0:1"},
          {"collectives", live},
          {"hosts", live},
          {"hosts", live, "--json"},
          {"report", done},
          {"report", done, "--json"},
          {"report", live},
          {"runs", (place.dir / ".").string()},
          {"runs", (place.dir / ".").string(), "--json"},
          {"trace", live, "--steps", "1", "-o", (place.dir / "trace.json").string()},
          {"scale", live, "--schedule", "gpipe"},
          {"checkpoint", live},
          {"checkpoint", live, "--json"},
          {"stop", live},
          {"eval", saved, "--files", corpus, "--steps", "1"},
          {"eval", saved, "--files", corpus, "--steps", "1", "--json"},
          {"eval", saved, "--files", corpus, "--steps", "1", "--pp", "2"},
          {"generate", saved, "--prompt", "a", "--tokens", "1"},
          {"generate", saved, "--prompt", "a", "--tokens", "1", "--tp", "2"},
          {"logits", saved, "--ids", ids, "-o", (place.dir / "logits.safetensors").string()},
          {"export", saved, exported},
          {"import", exported, (place.dir / "imported").string()},
          {"tokenize", corpus, "-o", (place.dir / "tokens").string()},
          {"doctor"},
          {"schedule", "--kind", "1f1b", "--stages", "2", "--microbatches", "4"},
          {"schedule", "--kind", "1f1b", "--stages", "2", "--microbatches", "4", "--json"},
          {"schedule", "--kind", "1f1b", "--stages", "2", "--microbatches", "4", "--csv"},
          {"schedule", "--kind", "1f1b", "--stages", "2", "--microbatches", "4", "--grid"},
          {"schedule", "--compare", "1f1b,gpipe", "--stages", "2", "--microbatches", "4"}};
}

}  // namespace

BOOST_AUTO_TEST_CASE(no_command_whose_output_cannot_be_written_ends_with_0) {
  const Workplace place;
  troupe({"launch", place.manifest("done")});
  TroupeProgram live({"launch", place.manifest("live", {{"run.max_steps", "1000000"},
                                                        {"monitor.log_interval", "1000000"},
                                                        {"mesh.pp", "2"}})});
  BOOST_REQUIRE(live.read_until("step 1/"));
  const FullDisk full;
  std::set<std::string> untried = all_commands();
  BOOST_TEST(untried.contains("plan"));
  untried.erase("join");     // it prints nothing
  untried.erase("measure");  // it takes half a minute
  for (const Words& words : all_ways(place, place.run("live"), place.run("done"))) {
    const Finished program = troupe_into(full.fd, words);
    BOOST_TEST(program.exit_code == kUnwritten, words[0] << ": " << program.err);
    BOOST_TEST(program.err.find("be written") + program.err.find("cannot write the output") !=
                   2 * std::string::npos,
               words[0] << ": " << program.err);
    untried.erase(words[0]);
  }
  for (const std::string& name : untried) BOOST_ERROR("nobody has tried " << name);
  BOOST_TEST(live.finish().exit_code == 0);
}

BOOST_AUTO_TEST_CASE(a_pipe_that_nobody_reads_is_an_error_too) {
  const Workplace place;
  std::array<int, 2> ends{};
  BOOST_REQUIRE(pipe2(ends.data(), O_CLOEXEC) == 0);
  close(ends[0]);
  const Finished plan = troupe_into(ends[1], {"plan", place.manifest("run")});
  BOOST_TEST(plan.exit_code == kUnwritten);
  BOOST_TEST(plan.err.find("Broken pipe") != std::string::npos, plan.err);
  close(ends[1]);
}

BOOST_AUTO_TEST_CASE(a_console_that_nobody_reads_holds_up_neither_a_run_nor_its_end) {
  const Workplace place;
  TroupeProgram run({"launch", place.manifest("run", {{"run.max_steps", "1000000"},
                                                      {"monitor.log_interval", "1"}})});
  // These are far more lines than a pipe and the queue of waiting lines hold.
  while (step_numbers(place.run("run")).size() < 3000 && is_alive(run.pid()))
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  run.signal(SIGTERM);
  while (is_alive(run.pid())) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  const Finished ended = run.finish();
  BOOST_TEST(ended.exit_code == 0, ended.err);
  BOOST_TEST(ended.out.find("step 1/1000000") != std::string::npos);
  const int last = step_numbers(place.run("run")).rbegin()->first;
  BOOST_TEST(last >= 3000);
  BOOST_TEST(fs::exists(place.checkpoint("run", last) + "/state.json"));
}

BOOST_AUTO_TEST_CASE(a_run_without_its_console_trains_to_its_end) {
  const Workplace place;
  const FullDisk full;
  const Finished run = troupe_into(full.fd, {"launch", place.manifest("run")});
  BOOST_TEST(run.exit_code == kUnwritten);
  BOOST_TEST(run.err.find("the console could not be written") != std::string::npos, run.err);
  BOOST_TEST(fs::exists(place.checkpoint("run", 6) + "/state.json"));
  BOOST_TEST(step_numbers(place.run("run")).size() == 6u);
  const Finished status = troupe({"status", place.run("run")});
  BOOST_TEST(status.out.find("exit code 0") != std::string::npos, status.out);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test
