#pragma once

#include <pty.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <boost/test/unit_test.hpp>
#include <cstdlib>
#include <string>
#include <vector>

namespace troupe::test {

/// The troupe program under test (environment TROUPE_BINARY) on a terminal of its own.
class OnTerminal {
 public:
  explicit OnTerminal(const std::vector<std::string>& arguments) {
    const winsize size{.ws_row = 24, .ws_col = 100};
    pid_ = forkpty(&terminal_, nullptr, nullptr, &size);
    if (pid_ != 0) return;
    std::vector<char*> argv{const_cast<char*>("troupe")};
    for (const std::string& word : arguments) argv.push_back(const_cast<char*>(word.c_str()));
    argv.push_back(nullptr);
    execv(std::getenv("TROUPE_BINARY"), argv.data());
    _exit(127);
  }
  ~OnTerminal() { close(terminal_); }
  OnTerminal(const OnTerminal&) = delete;

  bool read_until(const std::string& text) {
    while (shown_.find(text) == std::string::npos)
      if (!read_some()) return false;
    return true;
  }
  void press(char key) { BOOST_TEST(write(terminal_, &key, 1) == 1); }
  /// Waits until the program has ended and returns its exit code.
  int finish() {
    while (read_some()) {
    }
    int status = 0;
    waitpid(pid_, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  const std::string& shown() const { return shown_; }

 private:
  bool read_some() {
    std::array<char, 4096> bytes;
    const ssize_t got = read(terminal_, bytes.data(), bytes.size());
    if (got > 0) shown_.append(bytes.data(), static_cast<std::size_t>(got));
    return got > 0;
  }

  pid_t pid_ = -1;
  int terminal_ = -1;
  std::string shown_;
};

}  // namespace troupe::test
