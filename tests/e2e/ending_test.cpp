#include <sched.h>
#include <signal.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <ctime>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "tests/support/small_manifest.h"
#include "tests/support/troupe_program.h"

// Tests how runs end: in order, by signals, by a dead worker, by numbers that are not finite.

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(ending_test)

namespace {

namespace fs = std::filesystem;

const Keys kLong{{"run.max_steps", "1000000"}, {"mesh.pp", "2"}, {"checkpoint.interval", "5"}};

int last_step(const Workplace& place, const std::string& run) {
  return step_numbers(place.run(run)).rbegin()->first;
}

std::size_t count(const std::string& text, const std::string& what) {
  std::size_t n = 0;
  for (auto at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++n;
  return n;
}

/// A command about the run by a user who may not open a part of it: nobody, where this test is
/// root's, or else its owner, who has forbidden it to himself.
Finished of_another_user(const Workplace& place, std::vector<std::string> arguments,
                         const std::string& part) {
  const uid_t self = geteuid(), nobody = 65534;
  const fs::path closed = fs::path(place.run("run")) / part;
  const fs::perms before = fs::status(closed).permissions();
  fs::permissions(place.dir.path(), fs::perms(0755));
  fs::permissions(closed, fs::perms::none);
  arguments.insert(arguments.begin() + 1, place.run("run"));
  // Both: a program of two users may not be traced, by which a sanitizer looks for leaks.
  BOOST_REQUIRE(self != 0 || setresuid(nobody, nobody, self) == 0);
  const Finished done = troupe(arguments);
  BOOST_REQUIRE(self != 0 || setresuid(self, self, self) == 0);
  fs::permissions(closed, before);
  return done;
}

}  // namespace

BOOST_AUTO_TEST_CASE(sigterm_finishes_the_step_saves_and_exits_0) {
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) {
    const Workplace place;
    TroupeProgram run({"launch", place.manifest("run", kLong)});
    BOOST_REQUIRE(run.read_until("step 7/"));
    const auto workers = workers_of(place.run("run"));
    BOOST_TEST(workers.size() == 2u);
    run.signal(signal);
    const Finished done = run.finish();
    BOOST_TEST(done.exit_code == 0, done.err);
    BOOST_TEST(fs::exists(place.checkpoint("run", last_step(place, "run"))));
    for (const pid_t pid : workers) BOOST_TEST(!is_alive(pid));
  }
}

BOOST_AUTO_TEST_CASE(a_warning_of_a_batch_system_saves_and_the_next_signal_ends_the_run) {
  const Workplace place;
  Keys keys = kLong;
  keys["checkpoint.interval"] = "0";
  TroupeProgram run({"launch", place.manifest("run", keys)});
  BOOST_REQUIRE(run.read_until("step 3/"));
  const auto workers = workers_of(place.run("run"));
  // A batch system may send it to every process of a job.
  run.signal(SIGUSR1);
  for (const pid_t pid : workers) kill(pid, SIGUSR1);
  BOOST_REQUIRE(run.read_until("SIGUSR1: step "));
  BOOST_TEST((workers_of(place.run("run")) == workers));
  const fs::directory_iterator saved(place.run("run") + "/checkpoints");
  BOOST_TEST(
      std::count_if(begin(saved), end(saved), [](const auto& e) { return e.is_directory(); }) == 1);
  read_new_steps(run, place.run("run"), 2);
  for (const pid_t pid : workers) kill(pid, SIGTERM);
  run.signal(SIGXCPU);
  const Finished done = run.finish();
  BOOST_TEST(done.exit_code == 0, done.err);
  BOOST_TEST(done.out.find("stopped by SIGXCPU") != std::string::npos, done.out);
  BOOST_TEST(done.out.find("ended by") == std::string::npos, done.out);
}

BOOST_AUTO_TEST_CASE(a_run_is_saved_before_the_time_limit_of_its_machine) {
  const Workplace place;
  auto words = troupe_words({"launch", place.manifest("run", kLong)});
  words.insert(words.begin(),
               {"env", "SLURM_JOB_END_TIME=" + std::to_string(std::time(nullptr) + 20)});
  const Finished run = Program(words).finish();
  BOOST_TEST(run.exit_code == 75, run.err);
  BOOST_TEST(run.err.find("its time limit is near") != std::string::npos, run.err);
  BOOST_TEST(fs::exists(place.checkpoint("run", last_step(place, "run"))));
}

BOOST_AUTO_TEST_CASE(signals_that_were_ignored_at_the_start_stay_ignored) {
  const Workplace place;
  const std::string manifest = place.manifest("run", kLong);
  for (const int signal : {SIGHUP, SIGINT, SIGUSR1}) ::signal(signal, SIG_IGN);  // as nohup ... &
  TroupeProgram run({"launch", manifest});
  for (const int signal : {SIGHUP, SIGINT, SIGUSR1}) ::signal(signal, SIG_DFL);
  BOOST_REQUIRE(run.read_until("step 3/"));
  for (const int signal : {SIGHUP, SIGINT, SIGUSR1}) run.signal(signal);
  read_new_steps(run, place.run("run"), 3);
  run.signal(SIGTERM);
  const Finished done = run.finish();
  BOOST_TEST(done.exit_code == 0, done.err);
  BOOST_TEST(done.out.find("stopped by SIGTERM") != std::string::npos, done.out);
}

BOOST_AUTO_TEST_CASE(stop_ends_a_run_and_status_tells_how_it_ended) {
  const Workplace place;
  TroupeProgram run({"launch", place.manifest("run", kLong)});
  BOOST_REQUIRE(run.read_until("step 3/"));
  const Finished running = troupe({"status", place.run("run"), "--json"});
  const auto status = nlohmann::json::parse(running.out);
  BOOST_TEST(status["run"] == "run");
  BOOST_TEST(status["configuration"] == 1);
  BOOST_TEST(status["step"].get<int>() >= 3);
  for (const char* key :
       {"rank", "replica", "stage", "shard", "pid", "host", "state", "waiting_for"})
    BOOST_TEST(status["ranks"][0].contains(key), key);
  using Words = std::vector<std::string>;
  for (const auto& [command, part] :
       {std::pair(Words{"status"}, "lock"), std::pair(Words{"stop"}, "lock"),
        std::pair(Words{"attach"}, "lock"), std::pair(Words{"report", "--json"}, "metrics.jsonl"),
        std::pair(Words{"collectives"}, "logs"),
        std::pair(Words{"generate", "--prompt", "a"}, "checkpoints")}) {
    const Finished foreign = of_another_user(place, command, part);
    BOOST_TEST(foreign.exit_code == 65, command.front());
    BOOST_TEST(foreign.err.find(std::string(part) + " may not be read") != std::string::npos,
               foreign.err);
    BOOST_TEST((foreign.out + foreign.err).find("crashed") == std::string::npos, foreign.err);
  }
  BOOST_TEST(troupe({"stop", place.run("run")}).exit_code == 0);
  BOOST_TEST(run.finish().exit_code == 0);
  const Finished ended = troupe({"status", place.run("run")});
  BOOST_TEST(ended.exit_code == 0);
  BOOST_TEST(ended.out.find("step " + std::to_string(last_step(place, "run"))) != std::string::npos,
             ended.out);
  BOOST_TEST(troupe({"stop", place.run("run")}).exit_code == 69);
}

BOOST_AUTO_TEST_CASE(a_signal_does_not_wait_for_an_evaluation_that_status_shows) {
  const Workplace place;
  Keys keys = kLong;
  // Longer than any test.
  const std::string text = place.dir.write("long.txt", std::string(std::size_t{64} << 20, 'x'));
  keys["eval.files"] = "[\"" + text + "\"]";
  keys["eval.interval"] = "1";
  keys["eval.steps"] = "1000000000";
  TroupeProgram run({"launch", place.manifest("run", keys)});
  BOOST_REQUIRE(run.read_until("step 1/"));
  // Evaluation follows at once.
  while (troupe({"status", place.run("run")}).out.find(" steps done") == std::string::npos)
    sched_yield();
  run.signal(SIGINT);
  const Finished done = run.finish();
  BOOST_TEST(done.exit_code == 0, done.err);
  BOOST_TEST(fs::exists(place.checkpoint("run", 1)));
}

BOOST_AUTO_TEST_CASE(commands_that_compute_end_at_a_signal) {
  const Workplace place;
  troupe({"launch", place.manifest("run")});
  const std::string saved = place.checkpoint("run", 6);
  const std::string corpus = (place.dir / "corpus.txt").string();
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"generate", saved, "--prompt", "a", "--tokens", "1000000000"},
        {"eval", saved, "--files", corpus, "--steps", "1000000000"}}) {
    TroupeProgram program(words);
    program.signal(SIGINT);
    BOOST_TEST(program.finish().exit_code == 128 + SIGINT, words[0]);
  }
}

BOOST_AUTO_TEST_CASE(what_is_stopped_before_the_first_step_leaves_nothing) {
  Keys slow = kLong;
  slow["batch.global"] = "65536";  // for a long step
  for (const bool twice : {false, true}) {
    const Workplace place;
    TroupeProgram run({"launch", place.manifest("run", slow)});
    BOOST_REQUIRE(run.read_until("rank"));
    // A second signal counts as one only within a step, so all workers must be there.
    while (twice && workers_of(place.run("run")).size() < 2) sched_yield();
    if (twice) run.signal(SIGTERM);
    run.signal(SIGINT);
    const Finished done = run.finish();
    BOOST_TEST(done.exit_code == 75, done.err);
    BOOST_TEST(done.err.find("before the first step") != std::string::npos, done.err);
    BOOST_TEST(!fs::exists(place.run("run")));
  }
}

BOOST_AUTO_TEST_CASE(a_second_signal_stops_a_run_at_once_and_what_it_did_stays) {
  const Workplace place;
  TroupeProgram run({"launch", place.manifest("run", kLong)});
  BOOST_REQUIRE(run.read_until("step 7/"));
  // While a worker is stopped the step cannot end, and so neither can the run.
  const auto workers = workers_of(place.run("run"));
  BOOST_REQUIRE(workers.size() == 2u);
  kill(workers[0], SIGSTOP);
  run.signal(SIGTERM);
  run.signal(SIGINT);
  BOOST_TEST(run.finish().exit_code == 75);
  BOOST_TEST(last_step(place, "run") >= 7);
}

BOOST_AUTO_TEST_CASE(
    a_killed_worker_ends_a_run_that_stops_on_failure_saved_and_with_its_cause_named_once) {
  const auto shm = shared_memory();
  for (const int signal : {SIGKILL, SIGSEGV}) {
    const Workplace place;
    Keys stops = kLong;
    stops["recovery.on_failure"] = "\"stop\"";
    stops["checkpoint.interval"] = "0";
    TroupeProgram run({"launch", place.manifest("run", stops)});
    BOOST_REQUIRE(run.read_until("step 10/"));
    const auto workers = workers_of(place.run("run"));
    kill(workers.at(1), signal);
    const Finished done = run.finish();
    BOOST_TEST(done.exit_code == 70);
    const std::string said = done.out + done.err;
    BOOST_TEST(count(said, "signal " + std::to_string(signal)) == 1u, said);
    BOOST_TEST(said.find("rank 1") != std::string::npos, said);
    for (const pid_t pid : workers) BOOST_TEST(!is_alive(pid));
    // From the memory of the worker that is left, which may have one step less than was committed.
    const int last = last_step(place, "run");
    const auto is_saved = [&](int step) {
      return fs::exists(place.checkpoint("run", step) + "/state.json");
    };
    BOOST_TEST((is_saved(last) || is_saved(last - 1)));
  }
  wait_for_no_more_than(shm);
}

BOOST_AUTO_TEST_CASE(workers_die_with_their_launcher) {
  const Workplace place;
  TroupeProgram run({"launch", place.manifest("run", kLong)});
  BOOST_REQUIRE(run.read_until("step 3/"));
  const auto workers = workers_of(place.run("run"));
  run.signal(SIGKILL);
  run.finish();
  // The kernel kills them, and /proc shows when it has.
  for (const pid_t pid : workers)
    while (is_alive(pid)) sched_yield();
}

BOOST_AUTO_TEST_CASE(a_loss_that_is_not_finite_ends_the_run_with_the_state_before_it_saved) {
  const Workplace place;
  const Finished done = troupe({"launch", place.manifest("run", {{"run.max_steps", "100"},
                                                                 {"mesh.pp", "2"},
                                                                 {"optimizer.lr", "1e25"},
                                                                 {"optimizer.clip", "0.0"},
                                                                 {"optimizer.warmup_steps", "0"},
                                                                 {"checkpoint.interval", "0"}})});
  BOOST_TEST(done.exit_code == 70);
  const int last = last_step(place, "run");
  const std::string saved = place.checkpoint("run", last);
  for (const std::string& part :
       {"step " + std::to_string(last + 1) + " was not committed", std::string("stage "),
        std::string("not finite"), "the state of step " + std::to_string(last) + " is in " + saved})
    BOOST_TEST(count(done.err, part) == 1u, done.err);
  BOOST_TEST(!fs::exists(place.checkpoint("run", last + 1)));
  BOOST_TEST(troupe({"generate", saved, "--prompt", "a", "--tokens", "1"}).exit_code == 0);
}

BOOST_AUTO_TEST_CASE(weights_that_the_last_step_makes_infinite_push_out_no_checkpoint) {
  const Workplace place;
  BOOST_REQUIRE(
      troupe({"launch", place.manifest("run", {{"run.max_steps", "2"}, {"checkpoint.keep", "1"}})})
          .exit_code == 0);
  const Finished done =
      troupe({"launch", "--resume", place.run("run"), "--set", "run.max_steps=3", "--set",
              "optimizer.group=[{match = \"model.norm.weight\", lr_scale = 1e60}]"});
  BOOST_TEST(done.exit_code == 70, done.err);
  BOOST_TEST(
      done.err.find("step 3 could not be saved: tensor model.norm.weight is ") != std::string::npos,
      done.err);
  BOOST_TEST(count(done.err + done.out, "tried again") == 0u, done.err);
  BOOST_TEST(!fs::exists(place.checkpoint("run", 3)));
  BOOST_TEST(troupe({"generate", place.run("run"), "--prompt", "a", "--tokens", "1"}).exit_code ==
             0);
}

BOOST_AUTO_TEST_CASE(finite_weights_that_compute_beyond_the_range_of_numbers_are_told) {
  const Workplace place;
  const std::string manifest =
      place.manifest("run", {{"run.max_steps", "1"}, {"optimizer.warmup_steps", "0"}});
  BOOST_REQUIRE(troupe({"launch", manifest, "--set",
                        "optimizer.group=[{match = \"model.norm.weight\", lr_scale = 1e30}, "
                        "{match = \"lm_head.weight\", lr_scale = 1e30}]"})
                    .exit_code == 0);
  const std::string corpus = (place.dir / "corpus.txt").string();
  for (const std::vector<std::string>& command :
       {std::vector<std::string>{"eval", place.run("run"), "--files", corpus},
        {"generate", place.run("run"), "--prompt", "a"}}) {
    const Finished done = troupe(command);
    BOOST_TEST(done.exit_code == 70, done.out);
    BOOST_TEST(count(done.err, "beyond float32") == 1u, done.err);
  }
}

BOOST_AUTO_TEST_CASE(a_run_directory_holds_what_it_should) {
  const Workplace place;
  BOOST_TEST(troupe({"launch", place.manifest("run", {{"mesh.pp", "2"}})}).exit_code == 0);
  for (const char* name : {"manifest.toml", "metrics.jsonl", "logs/rank-0", "logs/rank-1",
                           "checkpoints/step-6/config.json"})
    BOOST_TEST(fs::exists(fs::path(place.run("run")) / name), name);
  std::istringstream lines(content_of(place.run("run") + "/metrics.jsonl"));
  std::string line;
  std::getline(lines, line);
  const auto row = nlohmann::json::parse(line);
  for (const char* key : {"step", "loss", "grad_norm", "lr", "tokens", "first_sample",
                          "tokens_per_s", "step_s", "stages", "edges"})
    BOOST_TEST(row.contains(key), key);
  BOOST_TEST(row["tokens"] == 256);
  BOOST_TEST(row["stages"].size() == 2u);
  // 8 microbatches of 32 tokens x 32 channels x 4 bytes each way.
  for (const auto& edge : row["edges"]) BOOST_TEST(edge["bytes"] == 8 * 32 * 32 * 4);
  BOOST_TEST(row["edges"].size() == 2u);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test
