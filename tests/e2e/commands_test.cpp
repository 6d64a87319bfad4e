#include <sched.h>

#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>

#include "tests/support/small_manifest.h"
#include "tests/support/troupe_program.h"

// Tests the commands around a run, and their answers to bad input.

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(commands_test)

namespace {

namespace fs = std::filesystem;

void check_refused(const Finished& done, int exit_code, const std::vector<std::string>& words) {
  BOOST_TEST(done.exit_code == exit_code, "exit " << done.exit_code << ": " << done.err);
  for (const std::string& word : words)
    BOOST_TEST(done.err.find(word) != std::string::npos, "no '" << word << "' in: " << done.err);
  BOOST_TEST(done.err.size() < 2000u);
}

/// Restricts programs that the test starts to one core during its lifetime.
class OnOneCore {
 public:
  OnOneCore() {
    BOOST_REQUIRE(sched_getaffinity(0, sizeof before_, &before_) == 0);
    int first = 0;
    while (!CPU_ISSET(first, &before_)) ++first;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(first, &one);
    BOOST_REQUIRE(sched_setaffinity(0, sizeof one, &one) == 0);
  }
  ~OnOneCore() { sched_setaffinity(0, sizeof before_, &before_); }
  OnOneCore(const OnOneCore&) = delete;

 private:
  cpu_set_t before_{};
};

/// A variable in the environment of programs that the test starts, during its lifetime.
class WithVariable {
 public:
  WithVariable(const char* name, const char* value) : name_(name) { setenv(name, value, 1); }
  ~WithVariable() { unsetenv(name_); }
  WithVariable(const WithVariable&) = delete;

 private:
  const char* name_;
};

}  // namespace

BOOST_AUTO_TEST_CASE(a_checkpoint_alone_generates_and_evaluates) {
  const Workplace place;
  BOOST_REQUIRE(troupe({"launch", place.manifest("run")}).exit_code == 0);
  // The checkpoint lies elsewhere, without its run.
  const fs::path alone = place.dir / "alone";
  fs::rename(place.checkpoint("run", 6), alone);
  fs::remove_all(place.run("run"));
  const std::vector<std::string> generate{"generate", alone.string(), "--prompt", "the ",
                                          "--tokens", "40",           "--seed",   "1"};
  const Finished text = troupe(generate);
  BOOST_TEST(text.exit_code == 0, text.err);
  BOOST_TEST(text.out.size() >= 20u);
  BOOST_TEST(troupe(generate).out == text.out);
  auto other = generate;
  other.back() = "2";
  BOOST_TEST(troupe(other).out != text.out);
  const Finished eval = troupe({"eval", alone.string(), "--files",
                                (place.dir / "corpus.txt").string(), "--steps", "4", "--json"});
  BOOST_REQUIRE(eval.exit_code == 0);
  const double loss = nlohmann::json::parse(eval.out)["loss"];
  BOOST_TEST(loss > 1);
  BOOST_TEST(loss < 6);
}

BOOST_AUTO_TEST_CASE(settings_of_openmp_change_no_sum_or_are_refused) {
  const Workplace place;
  const Keys keys{{"cluster.threads", "2"}, {"run.max_steps", "2"}};
  BOOST_REQUIRE(troupe({"launch", place.manifest("calm", keys)}).exit_code == 0);
  const auto eval = [&] {
    return troupe({"eval", place.checkpoint("calm", 2), "--files", place.dir / "corpus.txt",
                   "--steps", "2", "--threads", "2", "--json"});
  };
  const Finished expected = eval();
  BOOST_REQUIRE_MESSAGE(expected.exit_code == 0, expected.err);
  int number = 0;
  for (const auto& [name, value] : {std::pair{"OMP_DYNAMIC", "true"},
                                    {"OMP_MAX_ACTIVE_LEVELS", "0"},
                                    {"OMP_NUM_THREADS", "1"}}) {
    const WithVariable variable(name, value);
    BOOST_TEST(eval().out == expected.out, name);
    const std::string run = "run" + std::to_string(++number);
    BOOST_REQUIRE(troupe({"launch", place.manifest(run, keys)}).exit_code == 0);
    BOOST_TEST((step_numbers(place.run(run)) == step_numbers(place.run("calm"))), name);
  }
  const WithVariable limit("OMP_THREAD_LIMIT", "1");
  check_refused(eval(), 69, {"OMP_THREAD_LIMIT = 1", "2 are asked for"});
  check_refused(troupe({"launch", place.manifest("limited", keys)}), 69, {"OMP_THREAD_LIMIT = 1"});
  BOOST_TEST(!fs::exists(place.run("limited")));
}

/// A run that leaves the plan its user wrote goes back to it, each line of its console tells the
/// time, and the orders answer in JSON.
BOOST_AUTO_TEST_CASE(a_plan_of_ones_own_is_left_and_found_again) {
  const Workplace place;
  const std::string plan =
      "\"\"\"0F0,0F1,0F2,0F3,0F4,0F5,0F6,0F7,0B0,0B1,0B2,0B3,0B4,0B5,0B6,0B7\n"
      "1F0,1B0,1F1,1B1,1F2,1B2,1F3,1B3,1F4,1B4,1F5,1B5,1F6,1B6,1F7,1B7\n\"\"\"";
  const std::string dir = place.run("run");
  TroupeProgram run({"launch", place.manifest("run", {{"run.max_steps", "1000000"},
                                                      {"mesh.pp", "2"},
                                                      {"schedule.kind", "\"csv\""},
                                                      {"schedule.csv", plan},
                                                      {"monitor.timestamps", "true"}})});
  BOOST_REQUIRE(run.read_until("step 2/"));
  check_refused(troupe({"scale", dir, "--pp", "3"}), 64, {"2 stages and 8 microbatches"});
  check_refused(troupe({"scale", dir, "--schedule", "zbh1"}), 64, {"zbh1 is kind = 'zb-h1' here"});
  for (const char* kind : {"zb-h1", "csv"}) {
    const Finished scaled = troupe({"scale", dir, "--schedule", kind, "--json"});
    BOOST_REQUIRE_MESSAGE(scaled.exit_code == 0, scaled.err);
    const auto told = nlohmann::json::parse(scaled.out);
    BOOST_TEST(told.at("code") == 0);
    BOOST_TEST(told.at("text").get<std::string>().find(std::string("x dp 1, ") + kind) !=
               std::string::npos);
  }
  const Finished stopped = troupe({"stop", dir, "--json"});
  BOOST_TEST(stopped.exit_code == 0, stopped.err);
  BOOST_TEST(nlohmann::json::parse(stopped.out).at("reason") == "stopped by troupe stop");
  const Finished done = run.finish();
  BOOST_TEST(done.exit_code == 0, done.err);
  std::istringstream lines(done.out);
  const std::regex stamp("[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9:]{8}[+-][0-9]{4} .*");
  for (std::string line; std::getline(lines, line);)
    BOOST_TEST(std::regex_match(line, stamp), line);
}

BOOST_AUTO_TEST_CASE(a_place_that_cannot_be_written_is_named_before_work) {
  const Workplace place;
  BOOST_REQUIRE(troupe({"launch", place.manifest("run")}).exit_code == 0);
  const std::string saved = place.checkpoint("run", 6), ids = place.dir.write("ids.jsonl", "[1]");
  const std::string within_file = (place.dir / "corpus.txt/out").string();
  const std::string model = (place.dir / "model").string();
  BOOST_REQUIRE(troupe({"export", saved, model}).exit_code == 0);
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"logits", saved, "--ids", ids, "-o", within_file},
        {"logits", saved, "--ids", ids, "-o", place.dir.path().string()},
        {"import", model, within_file},
        {"export", saved, within_file}}) {
    const Finished done = troupe(words);
    BOOST_TEST(done.exit_code == 65, words[0]);
    BOOST_TEST(done.err.find(words.back()) != std::string::npos, done.err);
  }
}

BOOST_AUTO_TEST_CASE(a_run_stands_for_its_newest_checkpoint) {
  const Workplace place;
  const std::string manifest = place.manifest("run", {{"checkpoint.interval", "3"}});
  BOOST_REQUIRE(troupe({"launch", manifest}).exit_code == 0);
  const auto generated = [](const std::string& model) {
    return troupe({"generate", model, "--prompt", "the ", "--tokens", "20", "--seed", "1"});
  };
  const Finished of_run = generated(place.run("run"));
  BOOST_REQUIRE_MESSAGE(of_run.exit_code == 0, of_run.err);
  BOOST_TEST(of_run.out == generated(place.checkpoint("run", 6)).out);
  BOOST_TEST(of_run.err.find(place.checkpoint("run", 6)) != std::string::npos, of_run.err);
  fs::remove_all(place.run("run") + "/checkpoints/step-3");
  fs::remove_all(place.checkpoint("run", 6));
  const Finished none = generated(place.run("run"));
  BOOST_TEST(none.exit_code == 65);
  BOOST_TEST(none.err.find("no checkpoint") != std::string::npos, none.err);
}

BOOST_AUTO_TEST_CASE(a_tokenized_dataset_trains_like_its_text) {
  const Workplace place;
  BOOST_REQUIRE(troupe({"launch", place.manifest("text")}).exit_code == 0);
  const std::string prefix = (place.dir / "tokens").string();
  const Finished tokenized = troupe(
      {"tokenize", (place.dir / "corpus.txt").string(), "--tokenizer", "bytes", "-o", prefix});
  BOOST_REQUIRE_MESSAGE(tokenized.exit_code == 0, tokenized.err);
  BOOST_REQUIRE(
      troupe({"launch", place.manifest("bin", {{"data.files", "[\"" + prefix + ".bin\"]"}})})
          .exit_code == 0);
  BOOST_TEST((step_numbers(place.run("bin")) == step_numbers(place.run("text"))));
  std::fstream(prefix + ".bin", std::ios::in | std::ios::out | std::ios::binary).write("Z", 1);
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{
            "launch", place.manifest("damaged", {{"data.files", "[\"" + prefix + ".bin\"]"}})},
        {"eval", place.run("text"), "--files", prefix + ".bin"}}) {
    const Finished damaged = troupe(words);
    BOOST_TEST(damaged.exit_code == 65);
    BOOST_TEST(damaged.err.find("tokens.bin: its bytes are not") != std::string::npos, damaged.err);
  }
}

BOOST_AUTO_TEST_CASE(a_corpus_is_read_by_its_format) {
  const Workplace place;
  BOOST_REQUIRE(troupe({"launch", place.manifest("text")}).exit_code == 0);
  const auto text = step_numbers(place.run("text"));
  const nlohmann::json document{{"text", content_of(place.dir / "corpus.txt")}, {"url", "x"}};
  const std::string lines = place.dir.write("corpus.jsonl", document.dump() + "\n");
  const std::string prefix = (place.dir / "tokens").string();
  BOOST_REQUIRE(troupe({"tokenize", lines, "-o", prefix}).exit_code == 0);
  int number = 0;
  for (const std::string& files : {lines, prefix + ".idx"}) {
    const std::string name = "run" + std::to_string(number++);
    const Finished run = troupe({"launch", place.manifest(name), "--set", "data.files=" + files});
    BOOST_REQUIRE_MESSAGE(run.exit_code == 0, run.err);
    BOOST_TEST((step_numbers(place.run(name)) == text));
  }
  check_refused(troupe({"plan", place.manifest("packed"), "--set",
                        "data.files=" + place.dir.write("corpus.jsonl.gz", "packed")}),
                65, {"corpus.jsonl.gz", "no text"});
  check_refused(troupe({"plan", place.manifest("small"), "--set", "data.files=" + prefix + ".bin",
                        "--set", "model.vocab_size=100"}),
                65, {"tokens.bin", "token ", "id 1", "vocab_size 100"});
}

BOOST_AUTO_TEST_CASE(an_address_is_bound_or_refused_by_plan) {
  const Workplace place;
  const auto plan = [&](const std::string& set) {
    return troupe({"plan", place.manifest("plan"), "--set", set});
  };
  check_refused(plan("monitor.web=192.0.2.1:0"), 78, {"monitor.web", "192.0.2.1:0"});
  for (const char* key : {"monitor.web", "monitor.prometheus"})
    check_refused(plan(std::string(key) + "=[::1]:0"), 78, {key, "[::1]:0", "IPv4"});
  BOOST_TEST(plan("monitor.web=127.0.0.1:0").exit_code == 0);
}

BOOST_AUTO_TEST_CASE(words_that_are_no_values_are_named) {
  const Workplace place;
  const std::string manifest = place.manifest("run");
  check_refused(troupe({"plan", manifest, "--set", "mesh.pp=four"}), 78,
                {"mesh.pp must be an integer, not 'four'"});
  check_refused(troupe({"plan", manifest, "--set", "optimizer.lr=nan"}), 78,
                {"optimizer.lr = nan must be"});
  check_refused(troupe({"plan", place.dir.path().string()}), 78, {"is a directory"});
  check_refused(troupe({"launch", manifest, "--set", "run.dir=~nobody/x"}), 78, {"only ~ and ~/"});
  check_refused(troupe({"generate", "x", "--prompt", "x", "--temperature", "nan"}), 64,
                {"--temperature", "nan"});
  check_refused(troupe({"generate", "x", "--prompt", "x", "--seed", "-1"}), 64, {"--seed", "-1"});
}

BOOST_AUTO_TEST_CASE(nothing_is_overwritten) {
  const Workplace place;
  const std::string manifest = place.manifest("run");
  BOOST_REQUIRE(troupe({"launch", manifest}).exit_code == 0);
  const auto before = content_of(place.run("run") + "/metrics.jsonl");
  check_refused(troupe({"launch", manifest}), 78, {place.run("run")});
  BOOST_TEST(content_of(place.run("run") + "/metrics.jsonl") == before);
}

BOOST_AUTO_TEST_CASE(a_run_in_progress_is_not_resumed_by_another) {
  const Workplace place;
  TroupeProgram run({"launch", place.manifest("run", {{"run.max_steps", "1000000"},
                                                      {"checkpoint.interval", "2"}})});
  BOOST_REQUIRE(run.read_until("step 3/"));
  const Finished second = troupe({"launch", "--resume", place.run("run")});
  BOOST_TEST(second.exit_code != 0);
  BOOST_TEST(second.err.find(place.run("run")) != std::string::npos, second.err);
  run.signal(15);
  BOOST_TEST(run.finish().exit_code == 0);
}

BOOST_AUTO_TEST_CASE(bad_input_is_refused_before_anything_starts) {
  const Workplace place;
  const auto launch = [&](const Keys& keys) {
    const Finished done = troupe({"launch", place.manifest("bad", keys)});
    BOOST_TEST(!fs::exists(place.run("bad") + "/metrics.jsonl"));
    return done;
  };
  check_refused(launch({{"model.hiden_size", "4"}}), 78,
                {"bad.toml:", "hiden_size", "hidden_size"});
  check_refused(launch({{"run.max_steps", "\"many\""}}), 78, {"bad.toml:", "max_steps"});
  check_refused(launch({{"mesh.pp", "7"}}), 78, {"pp", "6"});
  check_refused(launch({{"batch.micro", "3"}}), 78, {"16", "3"});
  check_refused(launch({{"schedule.kind", "\"1f2b\""}}), 78, {"1f1b"});
  check_refused(launch({{"data.files", "[\"/nowhere/nowhere.txt\"]"}}), 65, {"nowhere.txt"});
  const std::string empty = place.dir.write("empty.txt", "");
  check_refused(launch({{"data.files", "[\"" + empty + "\"]"}}), 65, {"empty.txt"});
  check_refused(launch({{"checkpoint.resume", '"' + place.dir.path().string() + '"'}}), 65,
                {"checkpoint"});
  check_refused(troupe({"launch", "--frobnicate", "x.toml"}), 64, {"--frobnicate"});
  check_refused(troupe({"status", place.dir.path().string()}), 65, {place.dir.path().string()});
}

BOOST_AUTO_TEST_CASE(what_fits_no_memory_here_is_planned_and_not_launched) {
  const Workplace place;
  const std::string huge = place.manifest("huge", {{"model.hidden_size", "65536"},
                                                   {"model.intermediate_size", "262144"},
                                                   {"model.num_hidden_layers", "64"},
                                                   {"mesh.pp", "2"}});
  const Finished plan = troupe({"plan", huge});
  BOOST_TEST(plan.exit_code == 0, plan.err);
  for (const char* word : {"warning: 2 ranks would take", "this machine has", "launch refuses it"})
    BOOST_TEST(plan.err.find(word) != std::string::npos, "no '" << word << "' in: " << plan.err);
  for (const char* word : {"memory ", "process", "0-31", "32-63", "TiB", "[model]"})
    BOOST_TEST(plan.out.find(word) != std::string::npos, "no '" << word << "' in: " << plan.out);
  const Finished json = troupe({"plan", huge, "--json"});
  BOOST_REQUIRE(json.exit_code == 0);
  const auto tree = nlohmann::json::parse(json.out);
  for (const auto& rank : tree["ranks"]) {
    std::int64_t sum = 0;
    for (const auto& [part, bytes] : rank["memory_bytes"].items())
      sum += part == "total" ? 0 : bytes.get<std::int64_t>();
    BOOST_TEST(rank["estimated_bytes"]["process"] > 0);
    BOOST_TEST(rank["memory_bytes"]["total"] == sum);
  }
  check_refused(troupe({"launch", huge}), 78, {"huge.toml", "2 ranks would take", "batch.micro"});
  BOOST_TEST(!fs::exists(place.run("huge")));
}

BOOST_AUTO_TEST_CASE(cores_that_are_taken_twice_are_told_before_the_first_step) {
  const Workplace place;
  const std::string manifest = place.manifest("run", {{"mesh.pp", "2"}});
  const OnOneCore one_core;
  for (const char* command : {"plan", "launch"}) {
    const Finished done = troupe({command, manifest});
    BOOST_TEST(done.exit_code == 0, done.err);
    BOOST_TEST(done.err.find("2 ranks of 1 thread compute on 1 core: cores are shared") !=
                   std::string::npos,
               command << ": " << done.err);
  }
}

BOOST_AUTO_TEST_CASE(a_foreign_checkpoint_names_the_field_that_differs) {
  const Workplace place;
  BOOST_REQUIRE(troupe({"launch", place.manifest("run")}).exit_code == 0);
  check_refused(
      troupe({"launch", place.manifest("other", {{"model.hidden_size", "64"},
                                                 {"checkpoint.resume",
                                                  '"' + place.checkpoint("run", 6) + '"'}})}),
      65, {"hidden_size", "32", "64"});
}

BOOST_AUTO_TEST_CASE(a_taken_port_is_named) {
  const Workplace place;
  TroupeProgram first({"launch", place.manifest("first", {{"run.max_steps", "1000000"}})});
  BOOST_REQUIRE(first.read_until("step 1/"));
  const int port = nlohmann::json::parse(content_of(place.run("first") + "/control.json"))["port"];
  const Finished second =
      troupe({"launch", place.manifest("second", {{"cluster.port", std::to_string(port)}})});
  BOOST_TEST((second.exit_code == 69 || second.exit_code == 78));
  BOOST_TEST(second.err.find(std::to_string(port)) != std::string::npos, second.err);
  first.signal(15);
  BOOST_TEST(first.finish().exit_code == 0);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test
