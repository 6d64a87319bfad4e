#include <signal.h>
#include <sys/wait.h>

#include <boost/test/unit_test.hpp>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <set>
#include <utility>

#include "tests/support/small_manifest.h"
#include "tests/support/troupe_program.h"

// Runs on file systems that lack something (support/poor_file_system.cpp), on disks that get full,
// and in directories that are not the run's any more.

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(file_systems_test)

namespace {

namespace fs = std::filesystem;

/// What programs that start meanwhile meet.
class FileSystem {
 public:
  using Variables = std::map<std::string, std::string>;
  explicit FileSystem(Variables variables) : variables_(std::move(variables)) {
    variables_["LD_PRELOAD"] = std::getenv("TROUPE_POOR_FILE_SYSTEM");
    for (const auto& [name, value] : variables_) setenv(name.c_str(), value.c_str(), 1);
  }
  FileSystem(const FileSystem&) = delete;
  ~FileSystem() {
    for (const auto& [name, value] : variables_) unsetenv(name.c_str());
  }

 private:
  Variables variables_;
};

bool says(const Finished& done, const std::string& words) {
  return (done.out + done.err).find(words) != std::string::npos;
}

std::uintmax_t bytes_of(const fs::path& dir) {
  std::uintmax_t bytes = 0;
  for (const auto& entry : fs::recursive_directory_iterator(dir))
    if (entry.is_regular_file()) bytes += entry.file_size();
  return bytes;
}

}  // namespace

BOOST_AUTO_TEST_CASE(neither_links_nor_modes_nor_syncs_of_directories_are_needed) {
  const Workplace place;
  const FileSystem exfat(
      FileSystem::Variables{{"TROUPE_TEST_FILES", "no-links no-modes no-directory-sync"}});
  const Finished done =
      troupe({"launch", place.manifest("run", {{"mesh.tp", "2"}, {"checkpoint.interval", "3"}})});
  BOOST_TEST(done.exit_code == 0, done.out + done.err);
  const Finished eval = troupe({"eval", place.checkpoint("run", 6), "--files",
                                (place.dir / "corpus.txt").string(), "--steps", "1"});
  BOOST_TEST(eval.exit_code == 0, eval.err);
}

BOOST_AUTO_TEST_CASE(what_a_run_cannot_do_without_is_refused_before_it_trains) {
  const Workplace place;
  for (const auto& [lacking, words] :
       {std::pair("no-locks", "its file system gives no lock (No locks available)"),
        std::pair("no-renames", "cannot hold checkpoints: ")}) {
    const FileSystem poor(FileSystem::Variables{{"TROUPE_TEST_FILES", lacking}});
    // Nothing is left, so that the same command is refused for the same reason.
    for (int time = 0; time < 2; ++time) {
      const Finished refused = troupe({"launch", place.manifest("run")});
      BOOST_TEST(refused.exit_code == 78);
      BOOST_TEST(says(refused, words), refused.err);
      BOOST_TEST(!says(refused, "in use"), refused.err);
      BOOST_TEST(!says(refused, "step 1/"), refused.out);
      BOOST_TEST(!fs::exists(place.run("run")));
    }
  }
}

BOOST_AUTO_TEST_CASE(on_a_full_disk_old_checkpoints_make_room_but_never_the_last_one) {
  const Workplace place;
  const Keys keys{{"mesh.pp", "2"}, {"checkpoint.interval", "1"}, {"checkpoint.keep", "3"}};
  BOOST_REQUIRE(troupe({"launch", place.manifest("free", keys)}).exit_code == 0);
  const std::uintmax_t each = bytes_of(place.checkpoint("free", 6));
  const auto launch = [&](const std::string& name, std::uintmax_t room) {
    const FileSystem small(
        FileSystem::Variables{{"TROUPE_TEST_DISK", place.run(name) + "/checkpoints"},
                              {"TROUPE_TEST_DISK_BYTES", std::to_string(room)}});
    return troupe({"launch", place.manifest(name, keys)});
  };
  const Finished two = launch("two", each * 26 / 10);
  BOOST_TEST(two.exit_code == 0, two.err);
  BOOST_TEST(says(two, "the disk is full: step-1 made room for step-3"), two.out);
  BOOST_TEST(!says(two, "could not be saved"), two.out);
  BOOST_TEST(fs::exists(place.checkpoint("two", 6)));
  const Finished one = launch("one", each * 16 / 10);
  BOOST_TEST(one.exit_code == 70, one.err);
  BOOST_TEST(says(one, "No space left on device"), one.err);
  BOOST_TEST(says(one, "newest checkpoint " + place.checkpoint("one", 1)), one.err);
  for (const std::string& newest : {place.checkpoint("two", 6), place.checkpoint("one", 1)}) {
    const Finished eval =
        troupe({"eval", newest, "--files", (place.dir / "corpus.txt").string(), "--steps", "1"});
    BOOST_TEST(eval.exit_code == 0, eval.err);
  }
}

BOOST_AUTO_TEST_CASE(what_nfs_keeps_of_removed_files_is_no_checkpoint_and_stops_no_cleaning) {
  const Workplace place;
  const FileSystem nfs(FileSystem::Variables{{"TROUPE_TEST_FILES", "nfs-renames"}});
  const Finished done = troupe(
      {"launch", place.manifest("run", {{"checkpoint.interval", "2"}, {"checkpoint.keep", "1"}})});
  BOOST_TEST(done.exit_code == 0, done.err);
  BOOST_TEST(!says(done, "older checkpoints stay"), done.out);
  std::set<std::string> left;
  for (const auto& entry : fs::recursive_directory_iterator(place.run("run") + "/checkpoints"))
    if (entry.path().parent_path().filename() != "step-6")
      left.insert(entry.path().filename().string());
  BOOST_TEST(
      (left == std::set<std::string>{"newest", "step-2.tmp", "step-4.tmp", "step-6", ".nfs0001"}));
  const Finished resumed =
      troupe({"launch", "--resume", place.run("run"), "--set", "run.max_steps=8"});
  BOOST_TEST(resumed.exit_code == 0, resumed.err);
  BOOST_TEST(fs::exists(place.checkpoint("run", 8)));
}

BOOST_AUTO_TEST_CASE(a_checkpoint_of_another_run_costs_none_of_the_runs_own) {
  const Workplace place;
  const std::string run = place.run("run");
  BOOST_REQUIRE(troupe({"launch", place.manifest("other", {{"run.max_steps", "9"},
                                                           {"checkpoint.interval", "4"}})})
                    .exit_code == 0);
  TroupeProgram program({"launch", place.manifest("run", {{"run.max_steps", "1000000"},
                                                          {"checkpoint.interval", "2"},
                                                          {"checkpoint.keep", "1"}})});
  BOOST_REQUIRE(program.read_until("step 3/"));
  const auto copy = [&](int step, const std::string& name) {
    fs::copy(place.checkpoint("other", step), run + "/checkpoints/" + name,
             fs::copy_options::recursive);
  };
  copy(9, "step-1000000");
  read_new_steps(program, run, 4);
  BOOST_TEST(troupe({"stop", run}).exit_code == 0);
  const Finished done = program.finish();
  BOOST_TEST(done.exit_code == 0, done.err);
  const int last = step_numbers(run).rbegin()->first;
  BOOST_TEST(fs::exists(place.checkpoint("run", last)));
  BOOST_TEST(says(done, "newest checkpoint " + place.checkpoint("run", last)), done.out);

  // A resume goes on from its own, and a name that is taken is made free.
  copy(8, "step-" + std::to_string(last + 1));
  const Finished resumed =
      troupe({"launch", "--resume", run, "--set", "run.max_steps=" + std::to_string(last + 1)});
  BOOST_TEST(resumed.exit_code == 0, resumed.err);
  BOOST_TEST(says(resumed, "resuming  after step " + std::to_string(last) + "\n"), resumed.out);
  BOOST_TEST(says(resumed, "step-1000000 was not written by this run"), resumed.out);
  BOOST_TEST(fs::exists(place.checkpoint("run", last + 1) + ".other"));
  BOOST_TEST(fs::exists(place.checkpoint("run", 1000000)));
}

BOOST_AUTO_TEST_CASE(a_launcher_whose_directory_is_replaced_stops_and_touches_nothing_there) {
  const Workplace place;
  const std::string run = place.run("run");
  const Keys keys{{"run.max_steps", "1000000"}, {"checkpoint.interval", "2"}};
  TroupeProgram first({"launch", place.manifest("run", keys)});
  BOOST_REQUIRE(first.read_until("step 3/"));
  fs::rename(run, place.run("moved"));
  BOOST_REQUIRE(troupe({"launch", place.manifest("run", {{"run.max_steps", "2"}})}).exit_code == 0);
  const Finished stopped = first.finish();
  BOOST_TEST(stopped.exit_code == 70);
  BOOST_TEST(says(stopped, run + " was removed, moved, or is another launcher's now"), stopped.err);
  BOOST_TEST(content_of(run + "/outcome.json").find("\"step\":2") != std::string::npos);
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(run + "/checkpoints"))
    names.insert(entry.path().filename().string());
  BOOST_TEST((names == std::set<std::string>{"newest", "step-2"}));
}

BOOST_AUTO_TEST_CASE(a_launcher_of_an_older_term_ends_before_it_writes) {
  const Workplace place;
  const std::string run = place.run("run");
  TroupeProgram old({"launch", place.manifest("run", {{"run.max_steps", "1000000"}})});
  BOOST_REQUIRE(old.read_until("step 3/"));
  kill(old.pid(), SIGSTOP);
  siginfo_t stopped{};
  BOOST_REQUIRE(waitid(P_PID, static_cast<id_t>(old.pid()), &stopped, WSTOPPED | WNOWAIT) == 0);
  // As another launcher takes a run over.
  place.dir.write("runs/run/term.json", R"({"term": 7, "host": "elsewhere", "pid": 12})");
  place.dir.write("runs/run/lock.7", "of another launcher");
  fs::rename(run + "/lock.7", run + "/lock");
  const std::map<std::string, std::string> files{
      {"metrics.jsonl", content_of(run + "/metrics.jsonl")},
      {"manifest.toml", content_of(run + "/manifest.toml")},
      {"events.jsonl", content_of(run + "/events.jsonl")},
      {"control.json", content_of(run + "/control.json")},
      {"checkpoints/newest", content_of(run + "/checkpoints/newest")}};
  place.dir.write("runs/run/metrics.new", files.at("metrics.jsonl"));
  fs::rename(run + "/metrics.new", run + "/metrics.jsonl");
  kill(old.pid(), SIGCONT);
  const Finished ended = old.finish();
  BOOST_TEST(ended.exit_code == 75);
  BOOST_TEST(says(ended,
                  "has another launcher now (process 12 on elsewhere, term 7), so this one, of "
                  "term 1, ends"),
             ended.err);
  for (const auto& [file, content] : files) BOOST_TEST(content_of(run + "/" + file) == content);
  BOOST_TEST(!fs::exists(run + "/outcome.json"));
}

BOOST_AUTO_TEST_CASE(a_command_runs_for_each_checkpoint_and_cannot_hurt_the_run) {
  const Workplace place;
  const std::string saved = (place.dir / "saved.txt").string();
  const auto launch = [&](const std::string& name, const std::string& command) {
    return troupe({"launch", place.manifest(name, {{"checkpoint.interval", "2"},
                                                   {"checkpoint.keep", "9"},
                                                   {"checkpoint.on_save_timeout", "1"},
                                                   {"checkpoint.on_save", "'" + command + "'"}})});
  };
  const Finished good = launch("good",
                               "test -f \"$TROUPE_CHECKPOINT/state.json\" && echo $TROUPE_STEP "
                               "\"$TROUPE_CHECKPOINT\" \"$TROUPE_RUN\" >> " +
                                   saved);
  BOOST_TEST(good.exit_code == 0, good.err);
  BOOST_TEST(!says(good, "on_save of step"), good.out);
  std::string expected;
  for (const int step : {2, 4, 6})
    expected += std::to_string(step) + " " + place.checkpoint("good", step) + " " +
                place.run("good") + "\n";
  BOOST_TEST(content_of(saved) == expected);
  const Finished bad = launch("bad", "echo no room there; exit 3");
  BOOST_TEST(bad.exit_code == 0, bad.err);
  BOOST_TEST(says(bad, "checkpoint.on_save of step-2 ended with exit code 3"), bad.out);
  BOOST_TEST(content_of(place.run("bad") + "/logs/on_save.log").starts_with("no room there\n"));
  const Finished hanging = launch("hanging", "sleep 1000");
  BOOST_TEST(hanging.exit_code == 0, hanging.err);
  BOOST_TEST(says(hanging, "was ended"), hanging.out);
  BOOST_TEST(step_numbers(place.run("hanging")).size() == 6u);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test
