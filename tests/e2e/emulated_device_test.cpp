#include <signal.h>

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/support/trained_run.h"

// Tests runs with device = "cuda" where TROUPE_CUDA_PATH names a back end whose kernels run on the
// host, with real processes: what a GPU needs of everybody else, without one.

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(emulated_device_test)

namespace {

const Keys kCpu{{"mesh.pp", "1"}};
const Keys kCuda = with(kCpu, {{"cluster.device", "\"cuda\""}});
const Keys kGpt2{{"model.kind", "\"gpt2\""},
                 {"model.num_key_value_heads", ""},
                 {"model.max_position_embeddings", "20"}};

}  // namespace

BOOST_AUTO_TEST_CASE(a_run_has_the_losses_of_the_cpu) {
  const Workplace place;
  for (const Keys& model : {Keys{}, kGpt2}) {
    const std::string name = model.empty() ? "llama" : "gpt2";
    const Numbers cpu = trained(place, name + "_cpu", with(kCpu, model));
    const Numbers cuda = trained(place, name + "_cuda", with(kCuda, model));
    BOOST_TEST(cuda.size() == cpu.size());
    BOOST_TEST(distance(cuda, cpu) < 1e-5, name << ": " << distance(cuda, cpu));
    BOOST_TEST(distance(cuda, cpu) > 0, name << " did not run on the device");
  }
}

/// Stages on CPUs beside stages on GPUs: their messages go through host memory, and so does a tied
/// matrix that both kinds have.
BOOST_AUTO_TEST_CASE(stages_of_a_run_have_several_kinds_of_devices) {
  const Workplace place;
  const Keys small{{"batch.micro", "1"}, {"model.tie_word_embeddings", "true"}};
  const Numbers cpu = trained(place, "cpu", with(small, kCpu));
  const std::map<std::string, std::string> layouts{
      {"cpu_cuda", "{device=\"cpu\"}, {device=\"cuda\"}"},
      {"cuda_cpu", "{device=\"cuda\"}, {device=\"cpu\"}"},
      {"wide", "{device=\"cuda\", dp=2}, {tp=2}"},
      {"three", "{device=\"cuda\"}, {}, {device=\"cuda\"}"}};
  for (const auto& [name, tables] : layouts) {
    const Keys keys =
        with(small, {{"mesh.pp", name == "three" ? "3" : "2"}, {"mesh.stage", "[" + tables + "]"}});
    const Numbers mixed = trained(place, name, keys);
    BOOST_TEST(mixed.size() == cpu.size());
    BOOST_TEST(distance(mixed, cpu) < 1e-5, name << ": " << distance(mixed, cpu));
    BOOST_TEST(distance(mixed, cpu) > 0, name << " did not run on the device");
    BOOST_TEST((trained(place, name + "_again", keys) == mixed), name);
  }
}

BOOST_AUTO_TEST_CASE(plans_tell_the_device_of_each_stage) {
  const Workplace place;
  const Finished plan = troupe(
      {"plan",
       place.manifest("planned", {{"mesh.pp", "2"}, {"mesh.stage", "[{}, {device=\"cuda\"}]"}}),
       "--json"});
  BOOST_REQUIRE_MESSAGE(plan.exit_code == 0, plan.err);
  const auto ranks = nlohmann::json::parse(plan.out).at("ranks");
  BOOST_TEST(ranks.at(0).at("device") == "cpu");
  BOOST_TEST(ranks.at(0).at("device_bytes") == 0);
  BOOST_TEST(!ranks.at(0).contains("gpu"));
  BOOST_TEST(ranks.at(1).at("device") == "cuda");
  BOOST_TEST(ranks.at(1).at("gpu") == 0);
}

/// A stage's replacement has the device of its stage, and so has one that a stage gets when the
/// run is scaled.
BOOST_AUTO_TEST_CASE(stages_keep_their_devices_when_workers_are_lost) {
  const Workplace place;
  const Keys keys{{"mesh.pp", "2"},           {"mesh.stage", "[{}, {device=\"cuda\"}]"},
                  {"batch.micro", "1"},       {"run.max_steps", "1000000"},
                  {"recovery.silent", "0.0"}, {"recovery.hang", "0.0"}};
  const std::string run = place.run("run");
  TroupeProgram program({"launch", place.manifest("run", keys)});
  BOOST_REQUIRE(program.read_until("step 2/"));
  for (const std::size_t rank : {1u, 0u}) {
    kill(workers_of(run).at(rank), SIGKILL);
    for (const char* text : {"recovered", "step "}) BOOST_REQUIRE(program.read_until(text));
  }
  for (const char* stage : {"1", "0"}) {
    const Finished scaled = troupe({"scale", run, "--stage", stage, "--dp", "2"});
    BOOST_TEST(scaled.exit_code == 0, scaled.err);
    BOOST_REQUIRE(program.read_until("step "));
  }
  BOOST_TEST(troupe({"stop", run}).exit_code == 0);
  BOOST_TEST(program.finish().exit_code == 0);
  const Numbers got = step_numbers(run);
  const int last = std::min(got.rbegin()->first, 40);
  const Keys alone =
      with(keys, {{"mesh.pp", "1"}, {"mesh.stage", ""}, {"run.max_steps", std::to_string(last)}});
  const Numbers calm = trained(place, "calm", alone);
  BOOST_TEST(distance(calm, got) < 1e-4, distance(calm, got));
}

BOOST_AUTO_TEST_CASE(ranks_take_the_gpus_that_are_chosen) {
  const Workplace place;
  const Keys chosen = with(kCuda, {{"cluster.gpus", "[0]"}});
  BOOST_TEST((trained(place, "chosen", chosen) == trained(place, "any", kCuda)));
  for (const auto& [gpus, word] :
       {std::pair("[7]", "no GPU 7"), std::pair("[\"GPU-1\"]", "GPU-1")}) {
    const Finished refused =
        troupe({"launch", place.manifest("refused", with(kCuda, {{"cluster.gpus", gpus}}))});
    BOOST_TEST(refused.exit_code == 69);
    for (const std::string text : {"cluster.gpus", word, "0 (Emulated GPU"})
      BOOST_TEST(refused.err.find(text) != std::string::npos, refused.err);
  }
  const Finished on_cpu =
      troupe({"plan", place.manifest("cpu", with(kCpu, {{"cluster.gpus", "[0]"}}))});
  BOOST_TEST(on_cpu.exit_code == 78);
  BOOST_TEST(on_cpu.err.find("cluster.device = 'cuda'") != std::string::npos, on_cpu.err);
}

BOOST_AUTO_TEST_CASE(status_tells_the_gpu_of_each_rank) {
  const Workplace place;
  TroupeProgram run({"launch", place.manifest("run", with(kCuda, {{"run.max_steps", "1000000"}}))});
  BOOST_REQUIRE(run.read_until("step 2/"));
  const nlohmann::json rank = status_of(place.run("run")).at("ranks").at(0);
  BOOST_TEST(rank.at("gpu").at("index") == 0);
  BOOST_TEST(rank.at("gpu").at("name") == "Emulated GPU");
  const Finished text = troupe({"status", place.run("run")});
  BOOST_TEST(text.out.find(", gpu 0 (Emulated GPU)  ") != std::string::npos, text.out);
  BOOST_TEST(troupe({"stop", place.run("run")}).exit_code == 0);
  BOOST_TEST(run.finish().exit_code == 0);
}

BOOST_AUTO_TEST_CASE(plans_count_the_context_that_was_measured) {
  const Workplace place;
  const auto context_in = [&](const Keys& keys) -> std::int64_t {
    const Finished plan = troupe({"plan", place.manifest("planned", keys), "--json"});
    BOOST_REQUIRE_MESSAGE(plan.exit_code == 0, plan.err);
    return nlohmann::json::parse(plan.out).at("ranks").at(0).at("estimated_bytes").at("context");
  };
  BOOST_TEST(context_in(kCuda) == std::int64_t{300} << 20);
  const Finished doctor = troupe({"doctor"});
  BOOST_TEST(doctor.out.find("a process's context takes 300.0 MiB") != std::string::npos,
             doctor.out);
}

BOOST_AUTO_TEST_CASE(a_checkpoint_resumes_with_the_same_bits) {
  const Workplace place;
  const Numbers whole = trained(place, "whole", kCuda);
  trained(place, "half", with(kCuda, {{"run.max_steps", "3"}}));
  const Numbers rest = trained(
      place, "rest", with(kCuda, {{"checkpoint.resume", '"' + place.checkpoint("half", 3) + '"'}}));
  BOOST_TEST(rest.size() == 3u);
  for (const auto& [step, numbers] : rest) BOOST_TEST((whole.at(step) == numbers), step);
}

BOOST_AUTO_TEST_CASE(a_checkpoint_evaluates_and_generates_as_on_the_cpu) {
  const Workplace place;
  trained(place, "run", kCuda);
  const std::string checkpoint = place.checkpoint("run", 6);
  const std::string corpus = (place.dir / "corpus.txt").string();
  std::vector<double> losses;
  std::vector<std::string> texts;
  for (const char* device : {"cpu", "cuda"}) {
    const Finished eval = troupe(
        {"eval", checkpoint, "--files", corpus, "--steps", "2", "--json", "--device", device});
    BOOST_REQUIRE_MESSAGE(eval.exit_code == 0, eval.err);
    losses.push_back(nlohmann::json::parse(eval.out).at("loss"));
    const Finished text = troupe({"generate", checkpoint, "--prompt", "the ", "--tokens", "20",
                                  "--seed", "1", "--device", device});
    BOOST_REQUIRE_MESSAGE(text.exit_code == 0, text.err);
    texts.push_back(text.out);
  }
  BOOST_TEST(losses[1] == losses[0], boost::test_tools::tolerance(1e-5));
  BOOST_TEST(texts[1] == texts[0]);
}

BOOST_AUTO_TEST_CASE(a_replacement_waits_for_the_memory_of_the_dead_process) {
  const Workplace place;
  const Keys keys = with(kCuda, {{"mesh.pp", "2"},
                                 {"run.max_steps", "1000000"},
                                 {"recovery.silent", "0.0"},
                                 {"recovery.hang", "0.0"}});
  const std::string full = (place.dir / "full").string(), run = place.run("run");
  setenv("EMULATED_FULL", full.c_str(), 1);
  TroupeProgram program({"launch", place.manifest("run", keys)});
  BOOST_REQUIRE(program.read_until("step "));
  place.dir.write("full", "");
  kill(workers_of(run).at(1), SIGKILL);
  for (const char* text : {"recovered", "step "}) BOOST_REQUIRE(program.read_until(text));
  BOOST_TEST(troupe({"stop", run}).exit_code == 0);
  BOOST_TEST(program.finish().exit_code == 0);
  unsetenv("EMULATED_FULL");
  BOOST_TEST(!std::filesystem::exists(full));
  const std::string output = content_of(run + "/logs/rank-1/output");
  for (const char* text : {"the emulated GPU has no room for", "waits up to 10 s for memory of"})
    BOOST_TEST(output.find(text) != std::string::npos, output);
  const Numbers got = step_numbers(run);
  const std::string last = std::to_string(got.rbegin()->first);
  BOOST_TEST((trained(place, "calm", with(keys, {{"run.max_steps", last}})) == got));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test
