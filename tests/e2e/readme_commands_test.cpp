#include "tests/e2e/readme_commands.h"

#include <pty.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <boost/test/unit_test.hpp>
#include <condition_variable>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <future>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <sstream>
#include <utility>

#include "tests/support/small_manifest.h"
#include "tests/support/troupe_program.h"

// Runs every command of every README and of CONTRIBUTING.md as it is written there. Placeholder
// words such as RUN stand for what the text says, and runs are shortened. Those of the walk-through
// are run one after the other, as its reader does.

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(readme_commands_test)

namespace {

namespace fs = std::filesystem;

constexpr int kTryAgain = 75;

/// A command in a terminal of its own that goes on while other commands run; its output is always
/// read.
class Background {
 public:
  explicit Background(const std::string& command) {
    winsize size{.ws_row = 40, .ws_col = 120, .ws_xpixel = 0, .ws_ypixel = 0};
    pid_ = forkpty(&terminal_, nullptr, nullptr, &size);
    if (pid_ == 0) {
      execl("/bin/sh", "sh", "-c", ("exec " + command).c_str(), nullptr);
      _exit(127);
    }
    reader_ = std::async(std::launch::async, [this] { read_all(); });
  }
  ~Background() {
    if (pid_ > 0) kill(pid_, SIGTERM);
    if (pid_ > 0) exit_code();
    close(terminal_);
  }
  Background(const Background&) = delete;

  /// Waits until `text` has come, after what earlier calls waited for.
  void read_until(const std::string& text) {
    std::unique_lock lock(mutex_);
    auto found = std::string::npos;
    changed_.wait(lock, [&] { return (found = got_.find(text)) != std::string::npos || ended_; });
    BOOST_REQUIRE_MESSAGE(found != std::string::npos, "no '" << text << "' in: " << got_);
    got_.erase(0, found + text.size());
  }
  int exit_code() {
    if (reader_.valid()) reader_.wait();
    int status = 0;
    waitpid(std::exchange(pid_, -1), &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

 private:
  void read_all() {
    std::array<char, 4096> bytes;
    ssize_t size = 0;
    do {
      size = read(terminal_, bytes.data(), bytes.size());
      const std::lock_guard lock(mutex_);
      if (size > 0) got_.append(bytes.data(), static_cast<std::size_t>(size));
      ended_ = size <= 0;
      changed_.notify_all();
    } while (size > 0);
  }

  int terminal_ = -1;
  pid_t pid_ = -1;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::string got_;
  bool ended_ = false;
  std::future<void> reader_;
};

/// A folder in which the commands work as the READMEs describe, with a record of the commands that
/// have run.
class Shell {
 public:
  Shell() {
    fs::create_directories(place_.dir / "build/release");
    fs::create_symlink(std::getenv("TROUPE_BINARY"), place_.dir / "build/release/troupe");
    fs::create_symlink(kSource / "launch", place_.dir / "launch");
    fs::copy_file(place_.dir / "corpus.txt", place_.dir / "text.txt");
    place_.dir.write("prompts.txt", "actor: \nThe \n");
    // Where quickstart makes its corpus.
    fs::create_directories(place_.dir / "build/quickstart/corpus");
    for (const char* name : {"train.txt", "validation.txt"})
      fs::copy_file(place_.dir / "corpus.txt", place_.dir / "build/quickstart/corpus" / name);
    // A run of many short steps, with a checkpoint at the step that the README names.
    place_.manifest("my", {{"run.max_steps", "1000000"},
                           {"run.dir", ""},
                           {"checkpoint.interval", "200"},
                           {"checkpoint.keep", "1000"}});
    fs::current_path(place_.dir.path());
  }
  ~Shell() { fs::current_path("/"); }

  /// Runs the command `written` of a README, with parts of it replaced by `instead` and with `more`
  /// at its end.
  std::string command(const std::string& written, const Keys& instead = {},
                      const std::string& more = "") {
    taken_.insert(written);
    std::string line = std::regex_replace(written, std::regex("\\bRUN\\b"), "runs/my");
    if (line.starts_with("troupe ")) line = "build/release/" + line;
    for (const auto& [part, other] : instead)
      line = std::regex_replace(line, std::regex("\\b" + part + "\\b"), other);
    return line + more;
  }
  void run(const std::string& written, const Keys& instead = {}, const std::string& more = "") {
    const std::string line = command(written, instead, more) + " > out.txt 2> err.txt";
    int exit_code = kTryAgain;  // as an order to save is answered while another checkpoint is saved
    while (exit_code == kTryAgain) exit_code = WEXITSTATUS(std::system(line.c_str()));
    BOOST_TEST_CONTEXT(line) {
      BOOST_TEST(exit_code == 0, content_of("err.txt"));
    }
  }
  std::string out() const { return content_of("out.txt"); }
  const std::set<std::string>& taken() const { return taken_; }

 private:
  Workplace place_;
  std::set<std::string> taken_;
};

/// The lines of the first block of output on a page that begins with `first`.
std::vector<std::string> block_in(const fs::path& page, const std::string& first) {
  std::ifstream file(page);
  std::string line;
  while (std::getline(file, line) && !line.starts_with(first)) continue;
  std::vector<std::string> block;
  for (; file && line != "```"; std::getline(file, line)) block.push_back(line);
  return block;
}

/// A line without what differs between machines: amounts of memory, which follow the instructions
/// of the processor, and pinning, which follows its cores; and without the folder of the test.
std::string portable(std::string line) {
  const std::string here = fs::current_path().string() + "/";
  for (std::size_t at = 0; (at = line.find(here)) != std::string::npos;)
    line.erase(at, here.size());
  line = std::regex_replace(line, std::regex("[0-9.]+ ([KMG]i)?B"), "BYTES");
  line = std::regex_replace(line, std::regex(", pinned"), "");
  return std::regex_replace(line, std::regex(" +"), " ");
}

/// Checks that the output has the printed lines in their order. Where "..." stands between them it
/// may have others; what follows `end` is not printed by this command.
void check_printed(const std::vector<std::string>& printed, const std::string& out,
                   const std::string& end) {
  std::istringstream lines(out);
  std::string line;
  bool gap = true;
  int compared = 0;
  for (const std::string& expected : printed) {
    if (expected.starts_with(end)) break;
    if (expected == "...") {
      gap = true;
      continue;
    }
    bool found = false;
    while (!found && std::getline(lines, line)) {
      found = portable(line) == portable(expected);
      if (!gap) break;
    }
    BOOST_TEST_REQUIRE(found, "no line '" << expected << "' here in:\n" << out);
    gap = false;
    ++compared;
  }
  BOOST_TEST(compared > 8);
}

void plan_for_other_machines(Shell& shell) {
  const std::string plan = "build/release/troupe plan launch/examples/interleaved.toml --machine ";
  shell.run(plan + "h100-sxm");
  BOOST_TEST(shell.out().find("tokens/s") != std::string::npos, shell.out());
  shell.run(plan + "h100-sxm --json");
  BOOST_TEST(nlohmann::json::parse(shell.out()).at("predicted").at("devices") == 2);
  shell.run(plan + "a100-80g --devices 4 --search");
  BOOST_TEST(shell.out().find("layouts were considered") != std::string::npos, shell.out());
  shell.run(plan + "l40s --inference --batch 4 --context 64");
  BOOST_TEST(shell.out().find("tokens/s") != std::string::npos, shell.out());
}

}  // namespace

/// What pages show of `plan` and of the beginning of a run is what the program prints today.
BOOST_AUTO_TEST_CASE(printed_plans_are_those_of_the_program) {
  Shell shell;
  const std::string data =
      " --set 'data.files=[\"build/quickstart/corpus/train.txt\"]' --set "
      "'eval.files=[\"build/quickstart/corpus/validation.txt\"]'";
  shell.run("build/release/troupe plan launch/docs/walk-through.toml", {}, data);
  check_printed(block_in(kWalkThrough, "run       walk-through"), shell.out(), "```");
  const auto quick_start = block_in(kSource / "README.md", "run       quickstart in ");
  BOOST_REQUIRE(!quick_start.empty());
  const std::string dir = quick_start[0].substr(quick_start[0].rfind(' ') + 1);
  shell.run("build/release/troupe plan launch/examples/quickstart.toml", {},
            data + " --set run.dir=" + dir);
  check_printed(quick_start, shell.out(), "step ");
}

BOOST_AUTO_TEST_CASE(every_command_of_every_readme_works_as_written) {
  Shell shell;
  shell.run("build/release/troupe plan launch/examples/interleaved.toml");
  BOOST_TEST(shell.out().find("bubble") != std::string::npos);
  shell.run("build/release/troupe plan my.toml --hosts a:2,b:2 --set mesh.pp=4");
  BOOST_TEST(shell.out().find("the loss of a host costs") != std::string::npos, shell.out());
  shell.run("build/release/troupe plan launch/examples/interleaved.toml --svg plan.svg");
  BOOST_TEST(fs::exists("plan.svg"));
  plan_for_other_machines(shell);
  shell.run("troupe schedule --kind NAME --stages P --microbatches M --grid",
            {{"NAME", "1f1b"}, {"P", "4"}, {"M", "8"}});

  Background launch(shell.command("build/release/troupe launch my.toml --set mesh.pp=4"));
  launch.read_until("step 402/");
  shell.run("build/release/troupe status RUN");
  BOOST_TEST(shell.out().find("stage") != std::string::npos, shell.out());
  shell.run("build/release/troupe hosts RUN");
  BOOST_TEST(shell.out().find("alone") != std::string::npos, shell.out());
  shell.run("build/release/troupe scale RUN --tp 2");
  // Back, because the tap below is of an edge that stages of one shard have.
  BOOST_TEST(troupe({"scale", "runs/my", "--tp", "1"}).exit_code == 0);
  shell.run("build/release/troupe scale RUN --stage 1 --dp 2");
  BOOST_TEST(shell.out().find("dp 2 | dp 1") != std::string::npos, shell.out());
  BOOST_TEST(troupe({"scale", "runs/my", "--dp", "1"}).exit_code == 0);
  Background attach(shell.command("build/release/troupe attach RUN"));
  attach.read_until("step");
  Background tap(shell.command("build/release/troupe tap RUN --edge 0:1 --every 10"));
  tap.read_until("norm");
  shell.run("build/release/troupe trace RUN --steps 3 -o trace.json");
  BOOST_TEST(nlohmann::json::parse(content_of("trace.json")).size() > 0u);
  shell.run("build/release/troupe collectives RUN");
  BOOST_TEST(shell.out().find("none was interrupted") != std::string::npos, shell.out());
  shell.run("build/release/troupe scale RUN --pp 3");
  shell.run("build/release/troupe checkpoint RUN");
  BOOST_TEST(fs::exists(shell.out().substr(0, shell.out().find('\n'))), shell.out());
  shell.run("build/release/troupe stop RUN");
  BOOST_TEST(launch.exit_code() == 0);
  BOOST_TEST(attach.exit_code() == 0);
  BOOST_TEST(tap.exit_code() == 0);

  const int stopped = nlohmann::json::parse(content_of("runs/my/outcome.json"))["step"];
  shell.run("build/release/troupe report RUN");
  BOOST_TEST(content_of("runs/my/report.html").find("changed") != std::string::npos);
  shell.run("build/release/troupe launch --resume RUN --set run.max_steps=2000",
            {{"2000", std::to_string(stopped + 2)}});
  BOOST_TEST(step_numbers("runs/my").rbegin()->first == stopped + 2);
  shell.run(
      "build/release/troupe launch my.toml --set mesh.pp=2 --set run.dir=runs/fork --set "
      "run.max_steps=800 --set checkpoint.resume=RUN/checkpoints/step-400",
      {{"800", "402"}});
  BOOST_TEST(step_numbers("runs/fork").begin()->first == 401);
  shell.run("build/release/troupe report RUN runs/fork -o both.html");
  BOOST_TEST(content_of("both.html").find("2 runs") != std::string::npos);
  BOOST_TEST((step_numbers("runs/fork").at(402) == step_numbers("runs/my").at(402)));
  shell.run("build/release/troupe runs");
  BOOST_TEST(shell.out().find("402/402") < shell.out().find("runs/my"), shell.out());
  shell.run(
      "build/release/troupe generate RUN/checkpoints/step-400 --prompt 'actor: ' --tokens 200 "
      "--seed 1");
  BOOST_TEST(shell.out().starts_with("actor: "));
  shell.run(
      "build/release/troupe generate RUN/checkpoints/step-400 --prompt-file prompts.txt --top-p "
      "0.9 --json");
  BOOST_TEST(nlohmann::json::parse(shell.out()).at("outputs").size() == 2u);
  shell.run(
      "build/release/troupe generate RUN/checkpoints/step-400 --prompt 'actor: ' --pp 3 --tp 2");
  BOOST_TEST(shell.out().starts_with("actor: "));
  shell.run("build/release/troupe eval RUN/checkpoints/step-400 --files text.txt --steps 100");
  BOOST_TEST(shell.out().starts_with("loss "));

  shell.run("build/release/troupe export RUN/checkpoints/step-400 my-model --dtype bfloat16");
  shell.run("build/release/troupe launch --from my-model --data text.txt --set mesh.pp=2", {},
            " --set run.max_steps=2 --set batch.seq_len=16");
  BOOST_TEST(step_numbers("runs/my-model").size() == 2u);
  shell.run("build/release/troupe generate my-model --prompt 'The ' --tokens 100", {{"100", "10"}});
  BOOST_TEST(shell.out().starts_with("The "));
  shell.run("build/release/troupe tokenize text.txt --tokenizer my-model/tokenizer.json -o tokens");
  BOOST_TEST(fs::file_size("tokens.bin") > 0u);

  std::set<std::string> known = shell.taken();
  for (const auto& [command, reason] : kNotRun) known.insert(command);
  BOOST_TEST(commands_of_readmes() == known, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(every_command_of_the_walk_through_works_in_its_order) {
  const std::string run = "runs/walk-through";
  // Its run, but with a model that trains in no time, and no end of its own.
  const std::string quick =
      " --set model.hidden_size=32 --set model.intermediate_size=48 --set batch.seq_len=16 --set "
      "run.max_steps=1000000 --set checkpoint.interval=0 --set monitor.log_interval=1 --set "
      "'data.files=[\"build/quickstart/corpus/train.txt\"]' --set "
      "'eval.files=[\"build/quickstart/corpus/validation.txt\"]'";
  Shell shell;
  std::optional<Background> launch, attach;
  std::string last;  // the step at which the second launch ends
  for (const std::string& written : commands_in(kWalkThrough)) {
    const auto calls = [&](const char* what) { return written.find(what) != std::string::npos; };
    if (calls("launch launch/docs/walk-through.toml")) {
      launch.emplace(shell.command(written, {}, quick));
      launch->read_until("step 20/");
    } else if (calls(" attach ")) {
      attach.emplace(shell.command(written));
      attach->read_until("step");
    } else if (calls("kill ")) {
      shell.run(written, {{"PID", std::to_string(workers_of(run).at(2))}});
      launch->read_until("recovered");
    } else {
      shell.run(written, {{"2000", last}}, calls(" plan ") ? quick : "");
    }
    if (calls(" stop ")) {
      const int step = nlohmann::json::parse(content_of(run + "/outcome.json")).at("step");
      last = std::to_string(step + 2);
    }
  }
  BOOST_TEST(launch->exit_code() == 0);
  BOOST_TEST(attach->exit_code() == 0);
  BOOST_TEST(std::to_string(step_numbers(run).rbegin()->first) == last);
  const std::string report = content_of(run + "/report.html");
  for (const char* event : {"worker lost", "recovered", "changed", "checkpoint"})
    BOOST_TEST(report.find(event) != std::string::npos, event);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test
