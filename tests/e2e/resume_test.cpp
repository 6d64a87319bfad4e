#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "tests/support/small_manifest.h"
#include "tests/support/troupe_program.h"

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(resume_test)

namespace {

namespace fs = std::filesystem;

void require_done(const Finished& done) {
  BOOST_REQUIRE_MESSAGE(done.exit_code == 0,
                        "exit " << done.exit_code << ": " << done.err << done.out);
}

void check_says(const Finished& done, const std::vector<std::string>& words) {
  for (const std::string& word : words)
    BOOST_TEST((done.out + done.err).find(word) != std::string::npos,
               "no '" << word << "' in: " << done.out << done.err);
}

/// Checks that the steps of `part` have the numbers that they have in `whole`.
void check_same(const std::map<int, StepNumbers>& part, const std::map<int, StepNumbers>& whole) {
  for (const auto& [step, numbers] : part)
    BOOST_CHECK_MESSAGE(numbers == whole.at(step), "step " << step << ": loss " << numbers.loss
                                                           << ", uninterrupted "
                                                           << whole.at(step).loss);
}

fs::path largest_file(const fs::path& dir) {
  fs::path largest;
  for (const auto& entry : fs::directory_iterator(dir))
    if (largest.empty() || entry.file_size() > fs::file_size(largest)) largest = entry.path();
  return largest;
}

std::string allowed_cores(const std::string& task) {
  std::ifstream status(task + "/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("Cpus_allowed_list:")) return line;
  return "";
}

/// Checks that each thread of each worker is bound to one core, or to the launcher's cores, as the
/// run's manifest says.
void check_pinned(const std::string& run, pid_t launcher) {
  const bool pinned = content_of(run + "/manifest.toml").find("pin = true\n") != std::string::npos;
  const std::string all = allowed_cores("/proc/" + std::to_string(launcher));
  BOOST_TEST_REQUIRE(all != "");
  for (const pid_t worker : workers_of(run)) {
    std::set<std::string> cores;
    for (const auto& task : fs::directory_iterator("/proc/" + std::to_string(worker) + "/task"))
      cores.insert(allowed_cores(task.path()));
    BOOST_TEST_REQUIRE(cores.size() == 1u);
    BOOST_TEST(
        (pinned ? cores.begin()->find_first_of(",-") == std::string::npos : *cores.begin() == all),
        *cores.begin());
  }
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_resume_into_another_layout_goes_on_bitwise) {
  const Workplace place;
  require_done(troupe({"launch", place.manifest("whole")}));
  const auto whole = step_numbers(place.run("whole"));
  require_done(
      troupe({"launch", place.manifest("half", {{"run.max_steps", "3"}, {"mesh.pp", "2"}})}));
  const std::string from = '"' + place.checkpoint("half", 3) + '"';
  const Keys layouts[] = {
      {{"mesh.pp", "1"}},
      {{"mesh.pp", "3"}},
      {{"mesh.pp", "2"}, {"schedule.kind", "\"interleaved\""}, {"schedule.chunks", "3"}}};
  int number = 0;
  for (Keys keys : layouts) {
    keys["checkpoint.resume"] = from;
    const std::string name = "rest" + std::to_string(number++);
    require_done(troupe({"launch", place.manifest(name, keys)}));
    const auto rest = step_numbers(place.run(name));
    BOOST_TEST(rest.begin()->first == 4);
    BOOST_TEST(rest.size() == 3u);
    check_same(rest, whole);
  }
}

BOOST_AUTO_TEST_CASE(a_resume_with_another_batch_counts_on_from_the_checkpoints_sample) {
  const Workplace place;
  require_done(troupe({"launch", place.manifest("first", {{"run.max_steps", "3"}})}));
  require_done(
      troupe({"launch", place.manifest("second", {{"batch.global", "8"},
                                                  {"run.max_steps", "5"},
                                                  {"checkpoint.resume",
                                                   '"' + place.checkpoint("first", 3) + '"'}})}));
  std::istringstream lines(content_of(place.run("second") + "/metrics.jsonl"));
  std::vector<int> first_samples;
  for (std::string line; std::getline(lines, line);)
    first_samples.push_back(nlohmann::json::parse(line)["first_sample"]);
  BOOST_TEST((first_samples == std::vector<int>{48, 56}));
}

BOOST_AUTO_TEST_CASE(weights_only_starts_at_step_1_with_a_fresh_optimizer) {
  const Workplace place;
  require_done(troupe({"launch", place.manifest("first")}));
  require_done(troupe(
      {"launch",
       place.manifest("second", {{"checkpoint.resume", '"' + place.checkpoint("first", 6) + '"'},
                                 {"checkpoint.weights_only", "true"}})}));
  const auto first = step_numbers(place.run("first")), second = step_numbers(place.run("second"));
  BOOST_TEST(second.begin()->first == 1);
  BOOST_TEST(second.at(1).loss < first.at(1).loss);
}

BOOST_AUTO_TEST_CASE(a_run_goes_on_in_its_own_directory) {
  const Workplace place;
  require_done(troupe({"launch", place.manifest("whole", {{"run.max_steps", "8"}})}));
  require_done(troupe({"launch", place.manifest("run", {{"run.max_steps", "4"},
                                                        {"mesh.pp", "2"},
                                                        {"checkpoint.interval", "2"}})}));
  require_done(troupe({"launch", "--resume", place.run("run"), "--set", "run.max_steps=8"}));
  const auto numbers = step_numbers(place.run("run"));
  BOOST_TEST(numbers.size() == 8u);
  check_same(numbers, step_numbers(place.run("whole")));
}

BOOST_AUTO_TEST_CASE(a_longer_run_decays_to_its_new_end) {
  const Workplace place;
  const auto rate = [&](const std::string& run, int step) {
    std::istringstream lines(content_of(place.run(run) + "/metrics.jsonl"));
    for (std::string line; std::getline(lines, line);)
      if (const auto json = nlohmann::json::parse(line); json["step"] == step)
        return json["lr"].get<double>();
    return -1.0;
  };
  require_done(troupe({"launch", place.manifest("run", {{"optimizer.decay", "\"cosine\""}})}));
  BOOST_TEST(rate("run", 6) == 0.0);
  const Finished longer =
      troupe({"launch", "--resume", place.run("run"), "--set", "run.max_steps=9"});
  require_done(longer);
  check_says(longer, {"derived   optimizer.decay_steps = 6, was 3",
                      "step 6 had a learning rate of 0, the settings of now give it 0.0005"});
  BOOST_TEST(rate("run", 7) > rate("run", 8));
  BOOST_TEST(rate("run", 8) > 0.0);
  BOOST_TEST(rate("run", 9) == 0.0);
  // A value that the user has set stays.
  require_done(troupe({"launch", place.manifest("set", {{"optimizer.decay", "\"cosine\""},
                                                        {"optimizer.decay_steps", "3"}})}));
  const Finished dead =
      troupe({"launch", "--resume", place.run("set"), "--set", "run.max_steps=9"});
  require_done(dead);
  check_says(dead, {"warning: the learning rate is 0 from step 6 on"});
  BOOST_TEST(dead.out.find("derived ") == std::string::npos, dead.out);
  BOOST_TEST(rate("set", 7) == 0.0);
}

BOOST_AUTO_TEST_CASE(other_data_than_the_checkpoints_is_refused_unless_it_is_meant) {
  const Workplace place;
  require_done(troupe({"launch", place.manifest("run", {{"run.max_steps", "3"}})}));
  const std::string other = "data.files=" + place.dir.write("other.txt", std::string(9999, 'x'));
  const auto resume = [&](std::vector<std::string> sets) {
    std::vector<std::string> arguments{"launch", "--resume", place.run("run")};
    sets.push_back("run.max_steps=4");
    for (const std::string& set : sets) arguments.insert(arguments.end(), {"--set", set});
    return troupe(arguments);
  };
  for (const std::string& set :
       {other, std::string("batch.seq_len=8"), std::string("data.shuffle=true")}) {
    const Finished refused = resume({set});
    BOOST_TEST(refused.exit_code == 65);
    check_says(refused, {"step 3", "48", "weights_only", "other_data"});
  }
  const std::string from = "checkpoint.resume=" + place.checkpoint("run", 3);
  const auto fork = [&](const std::string& name, const std::vector<std::string>& sets) {
    std::vector<std::string> arguments{"launch", place.manifest(name), "--set", from, "--set",
                                       other};
    for (const std::string& set : sets) arguments.insert(arguments.end(), {"--set", set});
    return troupe(arguments);
  };
  const Finished refused = fork("a", {});
  BOOST_TEST(refused.exit_code == 65);
  check_says(refused, {"data.files hold other tokens"});
  BOOST_TEST(!fs::exists(place.run("a")));
  require_done(fork("b", {"checkpoint.weights_only=true"}));
  require_done(fork("c", {"checkpoint.other_data=true"}));
  BOOST_TEST(step_numbers(place.run("c")).begin()->first == 4);
  const Finished meant = resume({other, "checkpoint.other_data=true", "run.seed=5"});
  require_done(meant);
  check_says(meant,
             {"differs   data.files hold other tokens", "differs   run.seed is 5, was 1234"});
  // The checkpoint now belongs to the new data.
  const Finished back = resume({"run.max_steps=5"});
  BOOST_TEST(back.out.find("differs") == std::string::npos, back.out);
  const Finished own = resume({from, "run.max_steps=6"});
  BOOST_TEST(own.exit_code == 64);
  check_says(own, {"--set checkpoint.resume", "its own newest checkpoint"});
}

BOOST_AUTO_TEST_CASE(a_resume_without_a_checkpoint_says_so) {
  const Workplace place;
  require_done(troupe({"launch", place.manifest("run")}));
  const auto before = step_numbers(place.run("run"));
  fs::remove_all(place.checkpoint("run", 6));
  const Finished again = troupe({"launch", "--resume", place.run("run")});
  require_done(again);
  check_says(again, {"starting  again: this run has no checkpoint of its own"});
  BOOST_TEST((step_numbers(place.run("run")) == before));
}

BOOST_AUTO_TEST_CASE(an_older_checkpoint_is_resumed) {
  const Workplace place;
  require_done(troupe({"launch", place.manifest("run", {{"run.max_steps", "3"}})}));
  const std::string state = place.checkpoint("run", 3) + "/state.json";
  auto json = nlohmann::json::parse(content_of(state));
  json.erase("training");
  write_file(state, json.dump());
  const Finished resumed =
      troupe({"launch", "--resume", place.run("run"), "--set", "run.max_steps=4"});
  require_done(resumed);
  check_says(resumed, {"differs   the checkpoint does not say"});
}

BOOST_AUTO_TEST_CASE(a_scaled_run_is_resumed_with_what_its_shape_derives) {
  const Workplace place;
  TroupeProgram run(
      {"launch", place.manifest("run", {{"run.max_steps", "1000000"}, {"cluster.threads", "1"}})});
  BOOST_REQUIRE(run.read_until("step 2/"));
  const std::vector<pid_t> before = workers_of(place.run("run"));
  check_pinned(place.run("run"), run.pid());
  require_done(troupe({"scale", place.run("run"), "--pp", "3"}));
  const std::string scaled = content_of(place.run("run") + "/manifest.toml");
  check_pinned(place.run("run"), run.pid());  // workers that were there before are pinned, too
  for (const pid_t worker : before) BOOST_TEST(is_alive(worker));
  require_done(troupe({"stop", place.run("run")}));
  BOOST_TEST(run.finish().exit_code == 0);
  for (const char* words : {"pp = 3\n", "\"cluster.pin\"", "\"cluster.spin\""})
    BOOST_TEST(scaled.find(words) != std::string::npos, scaled);
  // The values are those that plan derives for this shape.
  const Finished plan = troupe({"plan", place.run("run") + "/manifest.toml", "--json"});
  require_done(plan);
  const auto cluster = nlohmann::json::parse(plan.out)["manifest"]["cluster"];
  for (const char* key : {"pin", "spin"}) {
    const std::string line = std::string(key) + " = " + (cluster[key] ? "true" : "false") + "\n";
    BOOST_TEST(scaled.find(line) != std::string::npos, scaled);
  }
}

BOOST_AUTO_TEST_CASE(metrics_are_cut_back_to_the_checkpoint) {
  const Workplace place;
  require_done(troupe({"launch", place.manifest("run", {{"checkpoint.interval", "4"}})}));
  const auto before = step_numbers(place.run("run"));
  // The files look as after a crash: the last checkpoint is of step 4, lines go on to step 6 and
  // the last one is torn.
  fs::remove_all(place.checkpoint("run", 6));
  std::ofstream(place.run("run") + "/metrics.jsonl", std::ios::app) << "{\"step\": 7, \"loss\": 3.";
  require_done(troupe({"launch", "--resume", place.run("run")}));
  const auto after = step_numbers(place.run("run"));
  BOOST_TEST(after.size() == 6u);
  check_same(after, before);
}

BOOST_AUTO_TEST_CASE(a_torn_checkpoint_is_refused_by_name_and_resume_takes_the_one_before) {
  const Workplace place;
  require_done(troupe({"launch", place.manifest("run", {{"checkpoint.interval", "2"}})}));
  const auto before = step_numbers(place.run("run"));
  const fs::path torn = largest_file(place.checkpoint("run", 6));
  fs::resize_file(torn, fs::file_size(torn) - 100);

  const Finished refused = troupe(
      {"launch",
       place.manifest("other", {{"checkpoint.resume", '"' + place.checkpoint("run", 6) + '"'}})});
  BOOST_TEST(refused.exit_code == 65);
  BOOST_TEST(refused.err.find(torn.filename().string()) != std::string::npos, refused.err);
  BOOST_TEST(!fs::exists(place.run("other") + "/metrics.jsonl"));

  const Finished resumed = troupe({"launch", "--resume", place.run("run")});
  require_done(resumed);
  BOOST_TEST((resumed.out + resumed.err).find("step-6") != std::string::npos);
  check_same(step_numbers(place.run("run")), before);
}

BOOST_AUTO_TEST_CASE(old_checkpoints_go_and_step_0_stays) {
  const Workplace place;
  require_done(troupe({"launch", place.manifest("run", {{"checkpoint.interval", "1"},
                                                        {"checkpoint.keep", "2"},
                                                        {"checkpoint.initial", "true"}})}));
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(place.run("run") + "/checkpoints"))
    names.insert(entry.path().filename().string());
  BOOST_TEST((names == std::set<std::string>{"newest", "step-0", "step-5", "step-6"}));
}

BOOST_AUTO_TEST_CASE(checkpoints_of_all_layouts_hold_the_same_tensors) {
  const Workplace place;
  require_done(troupe({"launch", place.manifest("one", {{"model.tie_word_embeddings", "true"}})}));
  require_done(troupe({"launch", place.manifest("three", {{"model.tie_word_embeddings", "true"},
                                                          {"mesh.pp", "3"}})}));
  for (const char* name : {"one", "three"}) {
    const Finished eval = troupe({"eval", place.checkpoint(name, 6), "--files",
                                  (place.dir / "corpus.txt").string(), "--steps", "2", "--json"});
    require_done(eval);
    BOOST_TEST(eval.out == troupe({"eval", place.checkpoint("one", 6), "--files",
                                   (place.dir / "corpus.txt").string(), "--steps", "2", "--json"})
                               .out);
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test
