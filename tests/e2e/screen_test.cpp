#include <signal.h>

#include <boost/test/unit_test.hpp>
#include <functional>

#include "tests/support/on_terminal.h"
#include "tests/support/screen_emulator.h"
#include "tests/support/small_manifest.h"
#include "tests/support/troupe_program.h"

// Tests the screen of troupe attach in a terminal of its own, as a person sees it.

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(screen_test)

namespace {

using Environment = std::map<std::string, std::string>;

const Environment kXterm{
    {"TERM", "xterm-256color"}, {"LC_ALL", "C.UTF-8"}, {"NO_COLOR", ""}, {"COLORTERM", ""}};

Environment with(Environment environment, const Environment& other) {
  for (const auto& [name, value] : other) environment[name] = value;
  return environment;
}

/// A run that goes on until it is stopped.
struct LongRun {
  Workplace place;
  std::string dir = place.run("run");
  TroupeProgram program;

  explicit LongRun(int replicas)
      : program({"launch", place.manifest("run", {{"run.max_steps", "1000000"},
                                                  {"mesh.pp", "2"},
                                                  {"mesh.dp", std::to_string(replicas)},
                                                  {"monitor.peak_tflops", "1"},
                                                  {"monitor.log_interval", "1"}})}) {
    BOOST_REQUIRE(program.read_until("step 2/"));
  }
  /// Fails the test if the run does not go on, or does not end in order.
  void end() {
    read_new_steps(program, dir, 5);
    program.signal(SIGTERM);
    BOOST_TEST(program.finish().exit_code == 0);
  }
};

/// troupe attach, and what its terminal shows.
class Screen {
 public:
  Screen(const std::string& run, unsigned short width, unsigned short height,
         Environment environment = kXterm)
      : program_({"attach", run},
                 {.width = width, .height = height, .environment = std::move(environment)}),
        screen_(width, height) {}

  /// Waits until the terminal shows a text. The test's time limit is the only one.
  void wait_for(const std::string& text) {
    wait_until([&] { return screen_.shows(text); }, text);
  }
  void wait_until(const std::function<bool()>& holds, const std::string& what) {
    while (!holds()) {
      const std::string some = program_.read_some();
      BOOST_REQUIRE_MESSAGE(!some.empty(), what << " is not on\n" << screen_.text());
      screen_.feed(some);
    }
  }
  void resize(unsigned short width, unsigned short height) {
    // A frozen picture sends nothing more for the old size, which does not fit the new one.
    program_.type(" ");
    wait_for("go on");
    screen_.resize(width, height);
    program_.resize(width, height);
    wait_for("q quit");
    program_.type(" ");
  }
  int row_of(const std::string& text) const {
    const std::string all = screen_.text();
    const auto at = static_cast<std::ptrdiff_t>(all.find(text));
    return static_cast<int>(std::count(all.begin(), all.begin() + at, '\n'));
  }
  /// Reads what the program still writes and returns its exit code.
  int finish() {
    for (std::string some; !(some = program_.read_some()).empty();) screen_.feed(some);
    return program_.wait();
  }
  OnTerminal& program() { return program_; }
  ScreenEmulator& shown() { return screen_; }

 private:
  OnTerminal program_;
  ScreenEmulator screen_;
};

/// Whether a process takes a signal when it is ready for it, rather than dies of it.
bool blocks(pid_t pid, int signal) {
  const std::string status = content_of("/proc/" + std::to_string(pid) + "/status");
  const auto at = status.find("SigBlk:\t");
  BOOST_REQUIRE_MESSAGE(at != std::string::npos, "process " << pid << " is gone");
  return (std::stoull(status.substr(at + 8, 16), nullptr, 16) >> (signal - 1) & 1) != 0;
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_person_sees_the_run_at_any_size_and_what_happens_to_it) {
  LongRun run(2);
  Screen screen(run.dir, 80, 24);
  for (const char* part : {"training", "pp 2 x dp 2, 1f1b", "of 1,000,000", "tokens/s", "loss",
                           "mesh", "last step", "events", "F0", "B0"})
    screen.wait_for(part);
  const auto has_dots = [&] {
    const std::string text = screen.shown().text();
    return text.find("\xe2\xa0") != std::string::npos || text.find("\xe2\xa1") != std::string::npos;
  };
  screen.wait_until(has_dots, "a curve of dots");
  screen.wait_until(
      [&] { return screen.shown().row(23).starts_with("q quit  ? help  Tab pane"); }, "the keys");
  BOOST_TEST(screen.row_of(" loss ") == screen.row_of(" mesh "));
  BOOST_TEST(screen.row_of(" last step ") < screen.row_of(" events "));

  screen.resize(160, 50);
  screen.wait_for("\u256d\u2500");  // a frame around a rank
  for (const char* part : {"as the simulator expects it", "mfu 0.", "time went to computing"})
    screen.wait_for(part);
  BOOST_TEST(screen.shown().row(49).starts_with("q quit"));
  BOOST_TEST(screen.shown().row(screen.row_of(" mesh ")).find(" loss ") != std::string::npos);

  const std::vector<pid_t> workers = workers_of(run.dir);
  BOOST_REQUIRE(workers.size() == 4u);
  kill(workers[1], SIGKILL);
  screen.wait_for("worker lost");
  screen.wait_for("recovered");
  screen.wait_for("the run went on after");
  screen.wait_for("training");

  screen.resize(30, 8);
  screen.wait_for("\u25b6 events");
  BOOST_TEST(!screen.shown().shows(" mesh "));
  screen.program().type("q");
  BOOST_TEST(screen.finish() == 0);
  run.end();
}

BOOST_AUTO_TEST_CASE(keys_change_what_is_shown) {
  LongRun run(1);
  Screen screen(run.dir, 100, 30);
  screen.wait_for("F0");
  const auto press = [&](const std::string& keys, const std::string& text) {
    screen.program().type(keys);
    screen.wait_for(text);
  };
  press("l", "loss, logarithmic");
  press("\t", "\u25b6 loss");
  press("\x1b[C", "\u25b6 mesh");
  press("\x1b[D", "\u25b6 loss");
  press("\x1b[Z", "\u25b6 events");
  press("f", "events \u2500\u2500 cluster: 1");
  press("F", "events \u2500\u2500 all: ");
  press("\r", "\u25b6 events");
  screen.wait_until([&] { return !screen.shown().shows(" mesh "); }, "a large pane");
  press("\x1b", " mesh ");
  press("?", "keys and signs");
  press("?", " mesh ");
  press(" ", "go on");
  press(" ", "freeze");
  screen.program().type("q");
  BOOST_TEST(screen.finish() == 0);
  run.end();
}

/// Frames are told apart by nothing on the terminal, but all of one that changes little is short.
BOOST_AUTO_TEST_CASE(a_frame_sends_only_what_has_changed) {
  LongRun run(1);
  Screen screen(run.dir, 160, 50);
  screen.wait_for("F0");
  screen.program().type(" ");
  screen.wait_for("go on");
  screen.shown().num_written();
  screen.program().type(" ");
  screen.wait_for("freeze");
  screen.program().type("q");
  BOOST_TEST(screen.finish() == 0);
  BOOST_TEST(screen.shown().num_written() < 160 * 50 / 2);
  // The screen is cleared by nothing, and drawn within the alternate screen alone.
  BOOST_TEST(screen.program().shown().find("\x1b[2J") == std::string::npos);
  BOOST_TEST(screen.program().shown().find("\x1b[J") == std::string::npos);
  run.end();
}

BOOST_AUTO_TEST_CASE(the_terminal_is_left_as_it_was) {
  LongRun run(1);
  for (const bool by_key : {true, false}) {
    Screen screen(run.dir, 80, 24);
    const termios before = screen.program().modes();
    screen.wait_for("q quit");
    BOOST_TEST(screen.shown().is_alternate());
    BOOST_TEST(!screen.shown().has_cursor());
    if (by_key)
      screen.program().type("q");
    else
      kill(screen.program().pid(), SIGTERM);
    BOOST_TEST(screen.finish() == 0);
    BOOST_TEST(!screen.shown().is_alternate());
    BOOST_TEST(screen.shown().has_cursor());
    BOOST_TEST(screen.program().shown().find("\x1b[?7h") != std::string::npos);
    BOOST_TEST(screen.program().modes().c_lflag == before.c_lflag);
    BOOST_TEST(screen.program().modes().c_iflag == before.c_iflag);
  }
  run.end();
}

BOOST_AUTO_TEST_CASE(a_terminal_without_colours_or_utf8_gets_none) {
  LongRun run(1);
  Screen screen(run.dir, 80, 24, with(kXterm, {{"NO_COLOR", "1"}, {"LC_ALL", "C"}}));
  screen.wait_for("F0");
  screen.wait_for("> events");
  screen.program().type("q");
  BOOST_TEST(screen.finish() == 0);
  for (const std::string& attributes : screen.shown().attributes())
    for (const char* colour : {";3", ";4"})
      BOOST_TEST(attributes.find(colour) == std::string::npos, attributes);
  for (const char c : screen.program().shown()) BOOST_TEST(static_cast<signed char>(c) >= 0);
  run.end();
}

BOOST_AUTO_TEST_CASE(a_dumb_terminal_and_a_pipe_get_lines) {
  LongRun run(1);
  OnTerminal dumb({"attach", run.dir}, {.environment = with(kXterm, {{"TERM", "dumb"}})});
  BOOST_REQUIRE(dumb.read_until("tokens/s"));
  BOOST_TEST(dumb.shown().find('\x1b') == std::string::npos);
  kill(dumb.pid(), SIGINT);
  BOOST_TEST(dumb.finish() == 0);
  TroupeProgram piped({"attach", run.dir});
  BOOST_TEST(piped.read_until("/1000000  loss "));
  piped.signal(SIGTERM);
  BOOST_TEST(piped.finish().exit_code == 0);
  run.end();
}

/// The screen is larger than what the kernel holds for a reader, and nobody reads it.
BOOST_AUTO_TEST_CASE(a_terminal_that_takes_nothing_holds_up_neither_the_run_nor_the_end) {
  LongRun run(1);
  OnTerminal stopped({"attach", run.dir}, {.width = 400, .height = 100, .environment = kXterm});
  while (status_of(run.dir).at("monitors").at("attached") < 2) sched_yield();
  while (!blocks(stopped.pid(), SIGTERM)) sched_yield();
  read_new_steps(run.program, run.dir, 30);
  kill(stopped.pid(), SIGTERM);
  BOOST_TEST(stopped.wait() == 0);
  run.end();
}

BOOST_AUTO_TEST_CASE(a_stopped_screen_gives_the_terminal_back_and_takes_it_again) {
  LongRun run(1);
  const winsize size{.ws_row = 24, .ws_col = 80};
  int terminal = -1;
  const pid_t shell = forkpty(&terminal, nullptr, nullptr, &size);
  if (shell == 0) {
    for (const auto& [name, value] : kXterm) setenv(name.c_str(), value.c_str(), 1);
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
  type(std::string(std::getenv("TROUPE_BINARY")) + " attach " + run.dir + "\n");
  read_until("Space");
  type("\x1a");  // Ctrl-Z
  read_until("\x1b[?25h\x1b[?1049l");
  read_until("Stopped");
  type("stty -a | tr ' ' '\\n' | grep -c -x -e icanon -e echo -e icrnl; echo the ''modes\n");
  read_until("3\r\nthe modes");
  type("fg\n");
  read_until("\x1b[?1049h\x1b[?25l");
  read_until("Space");  // all of it is drawn again
  type("?");            // without Enter
  read_until("keys and signs");
  type("q");
  read_until("\x1b[?25h\x1b[?1049l");
  type("exit\n");
  close(terminal);
  int status = 0;
  waitpid(shell, &status, 0);
  run.end();
}

BOOST_AUTO_TEST_CASE(a_run_that_has_ended_can_still_be_looked_at) {
  LongRun run(1);
  run.end();
  Screen screen(run.dir, 100, 30);
  for (const char* part : {"ended in order", "stopped by SIGTERM", "mesh", "rank 1", "tokens/s"})
    screen.wait_for(part);
  screen.program().press('q');
  BOOST_TEST(screen.finish() == 0);
  BOOST_TEST(troupe({"attach", run.dir, "--json"}).exit_code == 69);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test
