#include <pty.h>
#include <signal.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include <array>
#include <boost/test/unit_test.hpp>
#include <cstdlib>

#include "tests/support/small_manifest.h"
#include "tests/support/troupe_program.h"

// Tests the screen of troupe attach in a terminal of its own.

namespace troupe::test {
namespace {

const Keys kLong{{"run.max_steps", "1000000"}, {"mesh.pp", "2"}, {"monitor.log_interval", "1"}};

}  // namespace

BOOST_AUTO_TEST_CASE(the_screen_is_left_as_it_was) {
  const Workplace place;
  TroupeProgram run({"launch", place.manifest("run", kLong)});
  BOOST_REQUIRE(run.read_until("step 2/"));
  for (const bool by_key : {true, false}) {
    const winsize size{.ws_row = 24, .ws_col = 80};
    int terminal = -1;
    const pid_t pid = forkpty(&terminal, nullptr, nullptr, &size);
    if (pid == 0) {
      const std::string path = place.run("run");
      execl(std::getenv("TROUPE_BINARY"), "troupe", "attach", path.c_str(), nullptr);
      _exit(127);
    }
    termios before{};
    tcgetattr(terminal, &before);
    std::string shown;
    std::array<char, 4096> bytes;
    const auto read_some = [&] {
      const ssize_t got = read(terminal, bytes.data(), bytes.size());
      if (got > 0) shown.append(bytes.data(), static_cast<std::size_t>(got));
      return got > 0;
    };
    while (shown.find("q leave") == std::string::npos) BOOST_REQUIRE(read_some());
    if (by_key)
      BOOST_TEST(write(terminal, "q", 1) == 1);
    else
      kill(pid, SIGTERM);
    while (read_some()) {
    }
    int status = 0;
    waitpid(pid, &status, 0);
    BOOST_TEST(WIFEXITED(status));
    BOOST_TEST(WEXITSTATUS(status) == 0);
    BOOST_TEST(shown.find("pp 2 x dp 1") != std::string::npos, shown);
    BOOST_TEST(shown.ends_with("\x1b[?25h\x1b[?1049l"),
               "the end is " << shown.substr(shown.size() - 40));
    termios after{};
    if (tcgetattr(terminal, &after) == 0) BOOST_TEST(after.c_lflag == before.c_lflag);
    close(terminal);
  }
  run.signal(SIGTERM);
  BOOST_TEST(run.finish().exit_code == 0);
}

BOOST_AUTO_TEST_CASE(a_stopped_screen_gives_the_terminal_back_and_takes_it_again) {
  const Workplace place;
  TroupeProgram run({"launch", place.manifest("run", kLong)});
  BOOST_REQUIRE(run.read_until("step 2/"));
  const winsize size{.ws_row = 24, .ws_col = 80};
  int terminal = -1;
  const pid_t shell = forkpty(&terminal, nullptr, nullptr, &size);
  if (shell == 0) {
    execl("/bin/sh", "sh", "-i", nullptr);
    _exit(127);
  }
  std::string shown;
  const auto read_until = [&](const std::string& text) {
    std::array<char, 4096> bytes;
    std::size_t found;
    while ((found = shown.find(text)) == std::string::npos) {
      const ssize_t got = read(terminal, bytes.data(), bytes.size());
      BOOST_REQUIRE_MESSAGE(got > 0, text << " is not in\n" << shown);
      shown.append(bytes.data(), static_cast<std::size_t>(got));
    }
    shown.erase(0, found + text.size());
  };
  const auto type = [&](const std::string& keys) {
    BOOST_REQUIRE(write(terminal, keys.data(), keys.size()) == std::ssize(keys));
  };
  type(std::string(std::getenv("TROUPE_BINARY")) + " attach " + place.run("run") + "\n");
  read_until("q leave   space freeze   e events");
  type("\x1a");  // Ctrl-Z
  read_until("\x1b[?25h\x1b[?1049l");
  read_until("Stopped");
  type("stty -a | tr ' ' '\\n' | grep -c -x -e icanon -e echo; echo the ''modes\n");
  read_until("2\r\nthe modes");
  type("fg\n");
  read_until("\x1b[?1049h\x1b[?25l");
  read_until("q leave   space freeze   e events");
  type("e");  // without Enter
  read_until("e all");
  type("q");
  read_until("\x1b[?25h\x1b[?1049l");
  type("exit\n");
  close(terminal);
  int status = 0;
  waitpid(shell, &status, 0);
  run.signal(SIGTERM);
  BOOST_TEST(run.finish().exit_code == 0);
}

}  // namespace troupe::test
