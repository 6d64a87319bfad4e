#include <signal.h>

#include <boost/test/unit_test.hpp>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/gpu/needs_gpu.h"
#include "tests/support/small_manifest.h"
#include "tests/support/troupe_program.h"

// Tests whole runs on a GPU: losses, repeats, resumes, evaluation and generation.

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(training_test)

namespace {

BOOST_TEST_GLOBAL_FIXTURE(NeedsGpu);

constexpr double kNearTheCpu = 0.005;

const Keys kModel{{"model.hidden_size", "64"},
                  {"model.intermediate_size", "176"},
                  {"model.num_attention_heads", "4"},
                  {"model.num_key_value_heads", "2"},
                  {"batch.seq_len", "64"},
                  {"run.max_steps", "50"}};

Keys with(Keys keys, const Keys& more) {
  for (const auto& [key, value] : more) keys[key] = value;
  return keys;
}

Keys on_gpu(const Keys& more = {}) {
  return with(with(kModel, {{"cluster.device", "\"cuda\""}}), more);
}

/// Trains and returns what each step measured.
std::map<int, StepNumbers> trained(const Workplace& place, const std::string& name,
                                   const Keys& keys) {
  const Finished run = troupe({"launch", place.manifest(name, keys)});
  BOOST_REQUIRE_MESSAGE(run.exit_code == 0, run.err);
  return step_numbers(place.run(name));
}

void check_near(const std::map<int, StepNumbers>& gpu, const std::map<int, StepNumbers>& cpu) {
  BOOST_REQUIRE(gpu.size() == cpu.size());
  for (const auto& [step, expected] : cpu) {
    const double loss = gpu.at(step).loss;
    BOOST_TEST(
        std::abs(loss - expected.loss) <= kNearTheCpu * expected.loss,
        "step " << step << ": loss " << loss << " on the GPU, " << expected.loss << " on the CPU");
  }
}

double eval_loss(const std::string& checkpoint, const std::string& files,
                 const std::string& device) {
  const Finished eval =
      troupe({"eval", checkpoint, "--files", files, "--steps", "4", "--json", "--device", device});
  BOOST_REQUIRE_MESSAGE(eval.exit_code == 0, eval.err);
  return nlohmann::json::parse(eval.out).at("loss");
}

}  // namespace

BOOST_AUTO_TEST_CASE(fifty_steps_follow_those_of_the_cpu) {
  const Workplace place;
  const auto cpu = trained(place, "cpu", kModel);
  check_near(trained(place, "float32", on_gpu()), cpu);
  check_near(trained(place, "tf32", on_gpu({{"cluster.matmul", "\"tf32\""}})), cpu);
  check_near(trained(place, "bfloat16", on_gpu({{"model.dtype", "\"bfloat16\""}})), cpu);
}

BOOST_AUTO_TEST_CASE(gpt2_follows_that_of_the_cpu) {
  const Workplace place;
  const Keys gpt2{{"model.kind", "\"gpt2\""}, {"model.num_key_value_heads", ""}};
  check_near(trained(place, "gpu", on_gpu(gpt2)), trained(place, "cpu", with(kModel, gpt2)));
}

BOOST_AUTO_TEST_CASE(two_runs_are_equal_bit_for_bit) {
  const Workplace place;
  for (const char* dtype : {"float32", "bfloat16"}) {
    const std::string type = '"' + std::string(dtype) + '"';
    const Keys keys = on_gpu({{"model.dtype", type}, {"recompute.mode", "\"selective\""}});
    const auto first = trained(place, dtype + std::string("-1"), keys);
    BOOST_TEST((first == trained(place, dtype + std::string("-2"), keys)), dtype);
    const Keys kept = on_gpu({{"model.dtype", type}});
    BOOST_TEST((first == trained(place, dtype + std::string("-3"), kept)), dtype);
  }
}

BOOST_AUTO_TEST_CASE(a_resumed_run_goes_on_with_the_same_bits) {
  const Workplace place;
  for (const char* dtype : {"float32", "bfloat16"}) {
    const Keys keys = on_gpu({{"model.dtype", '"' + std::string(dtype) + '"'}});
    const auto whole = trained(place, dtype + std::string("-whole"), keys);
    const std::string name = dtype + std::string("-parts");
    trained(place, name, with(keys, {{"run.max_steps", "20"}}));
    const Finished rest =
        troupe({"launch", "--resume", place.run(name), "--set", "run.max_steps=50"});
    BOOST_REQUIRE_MESSAGE(rest.exit_code == 0, rest.err);
    BOOST_TEST((step_numbers(place.run(name)) == whole), dtype);
  }
}

BOOST_AUTO_TEST_CASE(a_checkpoint_serves_both_devices) {
  const Workplace place;
  trained(place, "run", on_gpu());
  const std::string checkpoint = place.checkpoint("run", 50);
  const std::string corpus = (place.dir / "corpus.txt").string();
  const double cpu = eval_loss(checkpoint, corpus, "cpu");
  BOOST_TEST(std::abs(eval_loss(checkpoint, corpus, "cuda") - cpu) <= kNearTheCpu * cpu);
  const Finished text = troupe({"generate", checkpoint, "--prompt", "the ", "--tokens", "40",
                                "--temperature", "0", "--device", "cuda"});
  BOOST_TEST(text.exit_code == 0, text.err);
  BOOST_TEST(text.out.size() >= 20u);
}

BOOST_AUTO_TEST_CASE(a_killed_worker_is_replaced_and_no_loss_changes) {
  const Workplace place;
  const Keys keys = on_gpu({{"run.max_steps", "1000"}});
  const auto undisturbed = trained(place, "undisturbed", keys);
  TroupeProgram run({"launch", place.manifest("killed", keys)});
  BOOST_REQUIRE(run.read_until("step 5/"));
  const auto workers = workers_of(place.run("killed"));
  BOOST_REQUIRE(workers.size() == 1u);
  kill(workers.front(), SIGKILL);
  const Finished done = run.finish();
  BOOST_REQUIRE_MESSAGE(done.exit_code == 0, done.err);
  BOOST_TEST((step_numbers(place.run("killed")) == undisturbed));
}

BOOST_AUTO_TEST_CASE(metrics_tell_of_the_device) {
  const Workplace place;
  trained(place, "run", on_gpu());
  std::ifstream lines(place.run("run") + "/metrics.jsonl");
  std::string line;
  BOOST_REQUIRE(std::getline(lines, line));
  const auto stage = nlohmann::json::parse(line).at("stages").at(0);
  BOOST_TEST(stage.at("busy_s").get<double>() > 0);
  BOOST_TEST(stage.at("device_used_bytes").get<std::uint64_t>() > 0);
  BOOST_TEST(stage.at("device_total_bytes").get<std::uint64_t>() >=
             stage.at("device_used_bytes").get<std::uint64_t>());
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test
