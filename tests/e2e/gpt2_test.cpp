#include <signal.h>

#include <boost/test/unit_test.hpp>
#include <nlohmann/json.hpp>
#include <optional>

#include "tests/support/trained_run.h"

// Tests runs of a GPT-2 model, with real processes and real UCX.

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(gpt2_test)

namespace {

const Keys kGpt2{{"model.kind", "\"gpt2\""},
                 {"model.num_key_value_heads", ""},
                 {"model.max_position_embeddings", "20"},
                 {"model.vocab_size", "259"}};
const Keys kUntied = with(kGpt2, {{"model.tie_word_embeddings", "false"}});
const Keys kSequenceParallel = with(kGpt2, {{"mesh.sequence_parallel", "true"}});

/// Meshes whose losses have the same bits: they differ in stages and schedule alone.
const std::vector<std::vector<Keys>> kMeshes = {
    {with(kGpt2, {{"mesh.pp", "1"}}), with(kGpt2, {{"mesh.pp", "3"}})},
    {with(kGpt2, {{"mesh.tp", "2"}}),
     with(kGpt2, {{"mesh.tp", "2"}, {"mesh.pp", "2"}, {"schedule.kind", "\"zb-h1\""}}),
     with(kGpt2, {{"mesh.tp", "2"},
                  {"mesh.pp", "2"},
                  {"schedule.kind", "\"combined-1f1b\""},
                  {"schedule.chunks", "2"}})},
    {with(kSequenceParallel, {{"mesh.tp", "4"}}),
     with(kSequenceParallel, {{"mesh.tp", "4"}, {"mesh.pp", "2"}})},
    {with(kSequenceParallel, {{"mesh.tp", "2"}, {"mesh.dp", "2"}})},
};

}  // namespace

BOOST_AUTO_TEST_CASE(every_mesh_trains_gpt2_as_one_process_does) {
  const Workplace place;
  const Numbers one = trained(place, "one", kGpt2);
  int number = 0;
  for (const auto& alike : kMeshes) {
    std::optional<Numbers> first;
    for (const Keys& mesh : alike) {
      const std::string name = "mesh" + std::to_string(number++);
      const Numbers numbers = trained(place, name, mesh);
      BOOST_TEST(numbers.size() == one.size());
      BOOST_TEST(distance(numbers, one) < 2e-6, name << ": " << distance(numbers, one));
      if (!first) first = numbers;
      for (const auto& [step, values] : *first)
        BOOST_TEST((numbers.at(step) == values), name << " differs at step " << step);
    }
  }
  const Numbers untied = trained(place, "untied", kUntied);
  BOOST_TEST(distance(untied, one) > 1e-4);
  const Numbers shards =
      trained(place, "untied2", with(kUntied, {{"mesh.tp", "2"}, {"mesh.pp", "2"}}));
  BOOST_TEST(distance(shards, untied) < 2e-6, distance(shards, untied));
}

BOOST_AUTO_TEST_CASE(a_checkpoint_of_gpt2_resumes_generates_and_evaluates) {
  const Workplace place;
  const Numbers whole = trained(place, "whole", with(kGpt2, {{"run.max_steps", "12"}}));
  trained(place, "half", with(kSequenceParallel, {{"mesh.tp", "4"}}));
  const std::string half = place.checkpoint("half", 6);
  int number = 0;
  for (const Keys& mesh :
       {Keys{{"mesh.pp", "3"}}, Keys{{"mesh.tp", "2"}, {"mesh.pp", "2"}, {"mesh.dp", "2"}}}) {
    const std::string name = "rest" + std::to_string(number++);
    const Numbers rest = trained(place, name,
                                 with(with(kGpt2, mesh), {{"checkpoint.resume", '"' + half + '"'},
                                                          {"run.max_steps", "12"}}));
    BOOST_TEST(rest.size() == 6u);
    BOOST_TEST(distance(rest, whole) < 2e-6, name << ": " << distance(rest, whole));
  }
  const Finished text =
      troupe({"generate", half, "--prompt", "the ", "--tokens", "17", "--seed", "1"});
  BOOST_TEST(text.exit_code == 0, text.err);
  BOOST_TEST(text.out.size() >= 20u);  // as many as the table has positions for
  const Finished eval = troupe(
      {"eval", half, "--files", (place.dir / "corpus.txt").string(), "--steps", "4", "--json"});
  BOOST_REQUIRE_MESSAGE(eval.exit_code == 0, eval.err);
  const double loss = nlohmann::json::parse(eval.out)["loss"];
  BOOST_TEST(loss > 1);
  BOOST_TEST(loss < whole.at(1).loss);
}

BOOST_AUTO_TEST_CASE(a_run_of_gpt2_loses_a_shard_and_changes_its_mesh) {
  const Workplace place;
  const Keys endless = with(kGpt2, {{"run.max_steps", "100000000"}, {"batch.global", "64"}});
  const std::string run = place.run("live");
  TroupeProgram program(
      {"launch", place.manifest("live", with(endless, {{"mesh.tp", "2"}, {"mesh.pp", "2"}}))});
  BOOST_REQUIRE(program.read_until("step 5/"));
  const auto workers = workers_of(run);
  BOOST_REQUIRE(workers.size() == 4u);
  kill(workers[3], SIGKILL);  // of the stage whose embedding is a copy
  BOOST_REQUIRE(program.read_until("recovered"));
  for (const std::vector<std::string>& change :
       {std::vector<std::string>{"--tp", "4"}, {"--tp", "1"}, {"--pp", "3"}, {"--tp", "2"}}) {
    std::vector<std::string> scale{"scale", run};
    scale.insert(scale.end(), change.begin(), change.end());
    const Finished scaled = troupe(scale);
    BOOST_TEST(scaled.exit_code == 0, scaled.err);
  }
  BOOST_TEST(troupe({"stop", run}).exit_code == 0);
  BOOST_TEST(program.finish().exit_code == 0);
  const Numbers live = step_numbers(run);
  const int last = std::min(live.rbegin()->first, 60);
  const Numbers calm =
      trained(place, "calm", with(endless, {{"run.max_steps", std::to_string(last)}}));
  BOOST_TEST(distance(calm, live) < 1e-5, distance(calm, live));
}

BOOST_AUTO_TEST_CASE(plan_refuses_what_a_kind_lacks) {
  const Workplace place;
  const auto check = [&](const Keys& keys, const char* words) {
    const Finished done = troupe({"plan", place.manifest("bad", keys)});
    BOOST_TEST(done.exit_code == 78);
    BOOST_TEST(done.err.find(words) != std::string::npos, done.err);
  };
  check(with(kGpt2, {{"batch.seq_len", "21"}}), "at most model.max_position_embeddings = 20");
  check(with(kGpt2, {{"model.rope_theta", "10000.0"}}), "nearest: leave it out");
  check({{"model.layer_norm_epsilon", "1e-5"}}, "nearest: model.rms_norm_eps");
  const Finished plan = troupe({"plan", place.manifest("good", kGpt2)});
  BOOST_TEST(plan.exit_code == 0, plan.err);
  BOOST_TEST(plan.out.find("gpt2, 54,016 parameters") != std::string::npos, plan.out);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test
