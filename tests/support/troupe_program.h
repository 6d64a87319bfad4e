#pragma once

#include <sys/types.h>

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

namespace troupe::test {

/// What a finished program left.
struct Finished {
  int exit_code = -1;  ///< 128 + n if signal n ended it
  std::string out;     ///< standard output
  std::string err;     ///< standard error
};

/// The troupe program under test (environment TROUPE_BINARY), as a user runs it.
class TroupeProgram {
 public:
  /// Starts it. Standard error goes to a file, standard output can be read line by line.
  explicit TroupeProgram(const std::vector<std::string>& arguments);
  ~TroupeProgram();
  TroupeProgram(const TroupeProgram&) = delete;

  /// Blocks for the next line of standard output; empty at its end.
  std::string read_line();
  /// Reads lines until one contains `text`; false if the output ends before.
  bool read_until(const std::string& text);
  /// The lines that have been read.
  const std::string& shown() const { return out_; }
  void signal(int number);
  pid_t pid() const { return pid_; }
  /// Reads the rest of the output and waits for the end.
  Finished finish();

 private:
  pid_t pid_ = -1;
  int out_fd_ = -1;
  std::string buffered_;
  std::string out_;
  std::filesystem::path err_path_;
};

Finished troupe(const std::vector<std::string>& arguments);

/// What `status --json` tells of a run. Fails the test if it tells nothing.
nlohmann::json status_of(const std::string& run_dir);

/// Exact text of a step's numbers as metrics.jsonl has them.
struct StepNumbers {
  double loss = 0;
  double grad_norm = 0;
  bool operator==(const StepNumbers&) const = default;
};
/// Step lines of a run's metrics.jsonl. Fails the test if a step is there twice or a line is no
/// JSON.
std::map<int, StepNumbers> step_numbers(const std::filesystem::path& run_dir);

/// Whether a process exists and is no zombie.
bool is_alive(pid_t pid);
/// The processes of a run's ranks, those that have no process now left out; none of a run that does
/// not answer.
std::vector<pid_t> workers_of(const std::string& run_dir);
/// Names of what this machine has in shared memory. Of System V segments only those that nobody is
/// attached to: programs beside the test have some of their own.
std::set<std::string> shared_memory();
/// Until shared memory holds nothing beyond what was there before. What tests beside this one have
/// goes; what was left behind stays, and the test's time runs out.
void wait_for_no_more_than(const std::set<std::string>& before);

}  // namespace troupe::test
