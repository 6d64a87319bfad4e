#pragma once

#include <sys/types.h>

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "tests/support/program.h"

namespace troupe::test {

/// The words of a command line of the troupe program under test (environment TROUPE_BINARY), for
/// the test's device.
std::vector<std::string> troupe_words(const std::vector<std::string>& arguments);

/// The troupe program under test, as a user runs it.
class TroupeProgram : public Program {
 public:
  explicit TroupeProgram(const std::vector<std::string>& arguments)
      : Program(troupe_words(arguments)) {}
};

Finished troupe(const std::vector<std::string>& arguments);

/// Whether commands that compute do so on the asynchronous device (support/async_library.cpp),
/// where forwards and backwards have a stream each: TROUPE_TEST_DEVICE is async. TROUPE_CUDA_PATH
/// then names the device's folder.
bool on_async_device();
/// The words of a command with those that choose this device.
std::vector<std::string> on_test_device(std::vector<std::string> words);

/// The output of `status --json` for a run. Fails the test if there is none.
nlohmann::json status_of(const std::string& run_dir);

/// The numbers of a step as metrics.jsonl has them.
struct StepNumbers {
  double loss = 0;
  double grad_norm = 0;
  bool operator==(const StepNumbers&) const = default;
};
/// Step lines of a run's metrics.jsonl. Fails the test if a step is there twice or a line is no
/// JSON.
std::map<int, StepNumbers> step_numbers(const std::filesystem::path& run_dir);
/// The steps of `numbers` up to `last`.
std::map<int, StepNumbers> until_step(int last, std::map<int, StepNumbers> numbers);
/// Reads a run's output until the run has made so many steps since the call; lines of earlier steps
/// may not have been read yet. The run logs every step.
void read_new_steps(Program& run, const std::filesystem::path& run_dir, int count);
/// Stops a run that would go on, once it has made so many steps, and some since the call. Fails the
/// test if it does not end in order. Returns the numbers of the first `steps`.
std::map<int, StepNumbers> stop_after(int steps, Program& run,
                                      const std::filesystem::path& run_dir);

/// A file of a process in /proc, as text; empty if the process has ended.
std::string of_process(pid_t pid, const std::string& file);
/// Whether a process exists and is no zombie.
bool is_alive(pid_t pid);
/// The processes of a run's ranks. Ranks without a process are left out; empty if the run does not
/// answer.
std::vector<pid_t> workers_of(const std::string& run_dir);
/// Names of the objects in this machine's shared memory. System V segments are listed only if no
/// process is attached to them, because programs beside the test have segments of their own.
std::set<std::string> shared_memory();
/// Waits until shared memory holds nothing but what was there before. Objects of tests that run
/// beside this one disappear. Objects that were left behind stay, and the test times out.
void wait_for_no_more_than(const std::set<std::string>& before);

}  // namespace troupe::test
