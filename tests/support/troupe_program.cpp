#include "tests/support/troupe_program.h"

#include <sched.h>
#include <signal.h>

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <stdexcept>

#include "tests/support/temp_dir.h"

namespace troupe::test {

bool on_async_device() {
  const char* const device = std::getenv("TROUPE_TEST_DEVICE");
  return device && std::string(device) == "async";
}

std::vector<std::string> on_test_device(std::vector<std::string> words) {
  if (!on_async_device() || words.empty()) return words;
  if (words.front() == "launch") words.insert(words.end(), {"--set", "cluster.device=cuda"});
  if (words.front() == "eval" || words.front() == "generate")
    words.insert(words.end(), {"--device", "cuda"});
  return words;
}

std::vector<std::string> troupe_words(const std::vector<std::string>& arguments) {
  const char* binary = std::getenv("TROUPE_BINARY");
  if (!binary) throw std::runtime_error("TROUPE_BINARY does not name the program under test");
  std::vector<std::string> words = on_test_device(arguments);
  words.insert(words.begin(), binary);
  return words;
}

Finished troupe(const std::vector<std::string>& arguments) {
  return TroupeProgram(arguments).finish();
}

nlohmann::json status_of(const std::string& run_dir) {
  const Finished status = troupe({"status", run_dir, "--json"});
  BOOST_REQUIRE_MESSAGE(status.exit_code == 0, status.err);
  return nlohmann::json::parse(status.out);
}

std::map<int, StepNumbers> step_numbers(const std::filesystem::path& run_dir) {
  std::map<int, StepNumbers> numbers;
  std::ifstream file(run_dir / "metrics.jsonl");
  // The run may be writing its last line: a line without its end does not count.
  for (std::string line; std::getline(file, line) && !file.eof();) {
    const auto row = nlohmann::json::parse(line, nullptr, false);
    BOOST_REQUIRE_MESSAGE(!row.is_discarded(), "not JSON: " << line);
    if (!row.contains("loss")) continue;
    const bool is_new =
        numbers.emplace(row["step"], StepNumbers{row["loss"], row["grad_norm"]}).second;
    BOOST_REQUIRE_MESSAGE(is_new, "a step is logged twice: " << line);
  }
  return numbers;
}

std::map<int, StepNumbers> until_step(int last, std::map<int, StepNumbers> numbers) {
  numbers.erase(numbers.upper_bound(last), numbers.end());
  return numbers;
}

void read_new_steps(Program& run, const std::filesystem::path& run_dir, int count) {
  const auto before = step_numbers(run_dir);
  const int last = (before.empty() ? 0 : before.rbegin()->first) + count;
  for (int step = 0; step < last;) {
    const std::string line = run.read_line();
    if (line.empty()) BOOST_FAIL("the run ended before step " << last << ": " << run.finish().err);
    if (line.starts_with("step ")) step = std::atoi(line.c_str() + std::strlen("step "));
  }
}

std::map<int, StepNumbers> stop_after(int steps, Program& run,
                                      const std::filesystem::path& run_dir) {
  constexpr int kSome = 10;
  const auto before = step_numbers(run_dir);
  const int made = before.empty() ? 0 : before.rbegin()->first;
  read_new_steps(run, run_dir, std::max(steps - made, kSome));
  run.signal(SIGTERM);
  const Finished done = run.finish();
  BOOST_REQUIRE_MESSAGE(done.exit_code == 0, done.err);
  return until_step(steps, step_numbers(run_dir));
}

std::string of_process(pid_t pid, const std::string& file) {
  try {
    return content_of("/proc/" + std::to_string(pid) + "/" + file);
  } catch (const std::ios_base::failure&) {  // it has ended since the file was opened
    return "";
  }
}

bool is_alive(pid_t pid) {
  const std::string stat = of_process(pid, "stat");
  const auto name_end = stat.rfind(')');
  return name_end != std::string::npos && stat.at(name_end + 2) != 'Z';
}

std::vector<pid_t> workers_of(const std::string& run_dir) {
  const Finished status = troupe({"status", run_dir, "--json"});
  std::vector<pid_t> pids;
  const auto told = nlohmann::json::parse(status.out, nullptr, false);
  if (status.exit_code != 0 || !told.is_object() || !told.contains("ranks")) return pids;
  for (const auto& rank : told["ranks"])
    if (rank["pid"].get<int>() > 0) pids.push_back(rank["pid"]);
  return pids;
}

std::set<std::string> shared_memory() {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator("/dev/shm"))
    names.insert(entry.path().filename().string());
  std::ifstream segments("/proc/sysvipc/shm");
  for (std::string line; std::getline(segments, line);) {
    std::istringstream words(line);
    std::string key, id, mode, size, creator, last, users;
    if (words >> key >> id >> mode >> size >> creator >> last >> users && users == "0")
      names.insert("sysv " + id);
  }
  return names;
}

void wait_for_no_more_than(const std::set<std::string>& before) {
  while (!std::ranges::includes(before, shared_memory())) sched_yield();
}

}  // namespace troupe::test
