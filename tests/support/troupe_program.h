#pragma once

#include <sys/types.h>

#include <filesystem>
#include <map>
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

}  // namespace troupe::test
