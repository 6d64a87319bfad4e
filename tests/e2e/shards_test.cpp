#include <signal.h>

#include <boost/test/unit_test.hpp>
#include <nlohmann/json.hpp>
#include <random>

#include "tests/support/seed.h"
#include "tests/support/trained_run.h"

// Tests runs whose stages are several tensor-parallel shards, with real processes and real UCX.

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(shards_test)

namespace {

const Keys kSequenceParallel{{"mesh.sequence_parallel", "true"}};

/// Meshes whose losses have the same bits: they differ in stages, chunks and schedule alone.
const std::vector<std::vector<Keys>> kMeshes = {
    {{{"mesh.tp", "2"}},
     {{"mesh.tp", "2"}, {"mesh.pp", "2"}},
     {{"mesh.tp", "2"}, {"mesh.pp", "2"}, {"schedule.kind", "\"zb-h1\""}},
     {{"mesh.tp", "2"}, {"mesh.pp", "3"}, {"mesh.layout", "\"E|t*6|L\""}},
     {{"mesh.tp", "2"},
      {"mesh.pp", "2"},
      {"schedule.kind", "\"combined-1f1b\""},
      {"schedule.chunks", "2"}},
     {{"mesh.tp", "2"},
      {"mesh.pp", "2"},
      {"schedule.kind", "\"dualpipe-v\""},
      {"schedule.chunks", "2"}}},
    {{{"mesh.tp", "2"}, {"mesh.pp", "2"}, {"schedule.kind", "\"chimera\""}},
     {{"mesh.tp", "2"}, {"mesh.pp", "2"}, {"schedule.kind", "\"dualpipe\""}}},
    {{{"mesh.tp", "4"}}, {{"mesh.tp", "4"}, {"mesh.pp", "2"}}},
    {{{"mesh.tp", "2"}, {"mesh.dp", "2"}}, {{"mesh.tp", "2"}, {"mesh.dp", "2"}, {"mesh.pp", "2"}}},
};

}  // namespace

BOOST_AUTO_TEST_CASE(shards_train_as_one_process_does) {
  const Workplace place;
  int number = 0;
  for (const Keys& model :
       {Keys{}, Keys{{"model.tie_word_embeddings", "true"}, {"model.vocab_size", "259"}}}) {
    const Numbers one = trained(place, "one" + std::to_string(number++), model);
    for (const auto& alike : kMeshes)
      for (const Keys& common : {model, with(model, kSequenceParallel)}) {
        std::optional<Numbers> first;
        for (const Keys& mesh : alike) {
          const std::string name = "shards" + std::to_string(number++);
          const Numbers numbers = trained(place, name, with(mesh, common));
          BOOST_TEST(numbers.size() == one.size());
          BOOST_TEST(distance(numbers, one) < 2e-6, name << ": " << distance(numbers, one));
          if (!first) first = numbers;
          for (const auto& [step, values] : *first)
            BOOST_TEST((numbers.at(step) == values), name << " differs at step " << step);
        }
      }
  }
}

BOOST_AUTO_TEST_CASE(a_checkpoint_of_shards_is_one_of_the_model) {
  const Workplace place;
  const Numbers whole = trained(place, "whole", {{"run.max_steps", "12"}});
  trained(place, "half", {{"mesh.tp", "4"}, {"mesh.sequence_parallel", "true"}});
  const std::string half = '"' + place.checkpoint("half", 6) + '"';
  int number = 0;
  for (const Keys& mesh : {Keys{}, Keys{{"mesh.tp", "2"}, {"mesh.dp", "2"}}, Keys{{"mesh.pp", "3"}},
                           Keys{{"mesh.tp", "4"}}}) {
    const std::string name = "rest" + std::to_string(number++);
    const Numbers rest =
        trained(place, name, with(mesh, {{"checkpoint.resume", half}, {"run.max_steps", "12"}}));
    BOOST_TEST(rest.size() == 6u);
    BOOST_TEST(distance(rest, whole) < 2e-6, name << ": " << distance(rest, whole));
  }
}

BOOST_AUTO_TEST_CASE(a_run_loses_shards_and_changes_their_number) {
  const Workplace place;
  const Keys endless{{"run.max_steps", "100000000"}, {"batch.global", "64"}};
  const auto shm = shared_memory();
  const std::string run = place.run("live");
  TroupeProgram program({"launch", place.manifest("live", with(endless, {{"mesh.tp", "2"}}))});
  BOOST_REQUIRE(program.read_until("step 5/"));
  const Finished told = troupe({"status", run, "--json"});
  const auto ranks = nlohmann::json::parse(told.out).at("ranks");
  BOOST_REQUIRE(ranks.size() == 2u);
  BOOST_TEST(ranks[0].at("shard") == 0);
  BOOST_TEST(ranks[1].at("shard") == 1);
  std::istringstream lines(content_of(run + "/metrics.jsonl"));
  std::string line;
  BOOST_REQUIRE(std::getline(lines, line));
  const auto numbers = nlohmann::json::parse(line);
  for (const auto& shard : numbers.at("stages"))
    BOOST_TEST(shard.at("collective_s").get<double>() > 0, line);
  kill(ranks[1].at("pid").get<pid_t>(), SIGKILL);
  BOOST_REQUIRE(program.read_until("recovered"));
  for (const char* shards : {"4", "1", "2"}) {
    const Finished scaled = troupe({"scale", run, "--tp", shards});
    BOOST_TEST(scaled.exit_code == 0, scaled.err);
  }
  const Finished refused = troupe({"scale", run, "--tp", "3"});
  BOOST_TEST(refused.exit_code == 64);
  BOOST_TEST(refused.err.find("num_attention_heads = 4") != std::string::npos, refused.err);
  BOOST_TEST(troupe({"stop", run}).exit_code == 0);
  BOOST_TEST(program.finish().exit_code == 0);
  wait_for_no_more_than(shm);
  Numbers live = step_numbers(run);
  const int last = std::min(live.rbegin()->first, 60);
  const Numbers calm =
      trained(place, "calm", with(endless, {{"run.max_steps", std::to_string(last)}}));
  BOOST_TEST(distance(calm, live) < 1e-5, distance(calm, live));
}

/// A shard that dies within a pair leaves collectives of both actions behind.
BOOST_AUTO_TEST_CASE(a_run_of_pairs_loses_shards) {
  std::mt19937_64 rng(fresh_seed());
  const Workplace place;
  const Keys keys{{"mesh.tp", "2"},
                  {"mesh.pp", "2"},
                  {"mesh.sequence_parallel", "true"},
                  {"schedule.kind", "\"combined-1f1b\""},
                  {"schedule.chunks", "2"},
                  {"run.max_steps", "100000000"},
                  {"batch.global", "64"}};
  const auto shm = shared_memory();
  const std::string run = place.run("live");
  TroupeProgram program({"launch", place.manifest("live", keys)});
  for (int i = 0; i < 4; ++i) {
    BOOST_REQUIRE(program.read_until("step "));
    const auto workers = workers_of(run);
    BOOST_REQUIRE(!workers.empty());
    kill(workers[rng() % workers.size()], SIGKILL);
    BOOST_REQUIRE(program.read_until("recovered"));
  }
  BOOST_REQUIRE(program.read_until("step "));
  BOOST_TEST(troupe({"stop", run}).exit_code == 0);
  BOOST_TEST(program.finish().exit_code == 0);
  wait_for_no_more_than(shm);
  const Numbers live = step_numbers(run);
  const Numbers calm =
      trained(place, "calm", with(keys, {{"run.max_steps", std::to_string(live.rbegin()->first)}}));
  for (const auto& [step, numbers] : live)
    BOOST_TEST((calm.at(step) == numbers), "step " << step << ": another loss");
}

BOOST_AUTO_TEST_CASE(meshes_that_do_not_divide_the_model_are_refused) {
  const Workplace place;
  const auto refusal = [&](const Keys& keys) {
    const Finished done = troupe({"plan", place.manifest("bad", keys)});
    BOOST_TEST(done.exit_code == 78);
    return done.err;
  };
  const auto check = [&](const Keys& keys, const char* words) {
    const std::string text = refusal(keys);
    BOOST_TEST(text.find(words) != std::string::npos, text);
  };
  check({{"mesh.tp", "3"}}, "num_attention_heads = 4 must be divisible by tp = 3; nearest: tp = 2");
  check({{"mesh.tp", "2"}, {"model.intermediate_size", "49"}}, "intermediate_size = 49");
  check({{"mesh.tp", "4"}, {"mesh.sequence_parallel", "true"}, {"batch.seq_len", "14"}},
        "batch.seq_len = 14 must be divisible by tp = 4; nearest: tp = 2");
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test
