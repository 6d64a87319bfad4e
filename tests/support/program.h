#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace troupe::test {

/// The result of a finished program.
struct Finished {
  int exit_code = -1;  ///< 128 + n if signal n ended it
  std::string out;     ///< standard output
  std::string err;     ///< standard error
};

/// A program that a test starts; it is killed if the test does not wait for its end.
class Program {
 public:
  /// Whether it reads what the test writes, or what the test itself would read.
  enum class Input { of_test, written };
  /// Starts words[0], found as the shell finds it. Standard error goes to a file, standard output
  /// can be read line by line.
  explicit Program(const std::vector<std::string>& words, Input input = Input::of_test);
  virtual ~Program();
  Program(const Program&) = delete;

  /// Blocks for the next line of standard output and returns it; empty at the end of the output.
  std::string read_line();
  /// Reads lines until one contains `text`; false if the output ends before.
  bool read_until(const std::string& text);
  /// The lines that have been read so far.
  const std::string& shown() const { return out_; }
  /// Gives it a text to read, or the end of what it reads. Only if its input is written.
  void write(const std::string& text);
  void end_input();
  void signal(int number);
  virtual pid_t pid() const { return pid_; }
  /// Reads the rest of the output and waits for the end.
  Finished finish();

 private:
  pid_t pid_ = -1;
  int in_fd_ = -1;
  int out_fd_ = -1;
  int err_fd_ = -1;
  std::string buffered_;
  std::string out_;
};

}  // namespace troupe::test
