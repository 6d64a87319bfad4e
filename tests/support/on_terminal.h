#pragma once

#include <pty.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <boost/test/unit_test.hpp>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

namespace troupe::test {

/// What a program finds on its terminal.
struct TerminalSetting {
  unsigned short width = 100, height = 24;
  std::map<std::string, std::string> environment = {};  ///< an empty value removes a variable
};

/// The troupe program under test (environment TROUPE_BINARY) on a terminal of its own.
class OnTerminal {
 public:
  explicit OnTerminal(const std::vector<std::string>& arguments,
                      const TerminalSetting& setting = {}) {
    const winsize size{.ws_row = setting.height, .ws_col = setting.width};
    pid_ = forkpty(&terminal_, nullptr, nullptr, &size);
    if (pid_ != 0) return;
    for (const auto& [name, value] : setting.environment)
      value.empty() ? unsetenv(name.c_str()) : setenv(name.c_str(), value.c_str(), 1);
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
      if (read_some().empty()) return false;
    return true;
  }
  void press(char key) { BOOST_TEST(write(terminal_, &key, 1) == 1); }
  void type(const std::string& keys) {
    BOOST_TEST(write(terminal_, keys.data(), keys.size()) == std::ssize(keys));
  }
  /// Gives the terminal another size; the kernel tells the program.
  void resize(unsigned short width, unsigned short height) {
    const winsize size{.ws_row = height, .ws_col = width};
    BOOST_TEST(ioctl(terminal_, TIOCSWINSZ, &size) == 0);
  }
  termios modes() const {
    termios now{};
    BOOST_TEST(tcgetattr(terminal_, &now) == 0);
    return now;
  }
  pid_t pid() const { return pid_; }
  /// Waits for output and takes it; empty if the program has closed its terminal.
  std::string read_some() {
    std::array<char, 4096> bytes;
    const ssize_t got = read(terminal_, bytes.data(), bytes.size());
    const std::string some(bytes.data(), static_cast<std::size_t>(std::max<ssize_t>(0, got)));
    shown_ += some;
    return some;
  }
  /// Waits until the program has ended and returns its exit code.
  int finish() {
    while (!read_some().empty()) {
    }
    return wait();
  }
  /// Waits until the program has ended, without reading what it writes, and returns its exit code.
  int wait() {
    int status = 0;
    waitpid(pid_, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  const std::string& shown() const { return shown_; }

 private:
  pid_t pid_ = -1;
  int terminal_ = -1;
  std::string shown_;
};

}  // namespace troupe::test
