#include <signal.h>

#include <boost/test/unit_test.hpp>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>

#include "tests/support/seed.h"
#include "tests/support/trained_run.h"

// Runs whose replicas share experts out ([mesh] ep) against runs in which each holds all.

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(expert_parallel_test)

namespace {

const Keys kExperts{{"model.kind", "\"mixtral\""},
                    {"model.num_hidden_layers", "2"},
                    {"model.num_experts", "4"},
                    {"model.num_experts_per_tok", "2"},
                    {"batch.micro", "1"}};
const Keys kTwo = with(kExperts, {{"mesh.dp", "2"}, {"mesh.ep", "2"}});
const Keys kFour = with(kExperts, {{"mesh.dp", "4"}, {"mesh.ep", "2"}});

constexpr double kTolerance = 2e-6;

void check_same(const Numbers& numbers, const Numbers& expected, const std::string& name) {
  BOOST_TEST(!numbers.empty());
  for (const auto& [step, values] : numbers)
    BOOST_TEST((values == expected.at(step)), name << " differs at step " << step);
}

/// Where the state of each recovery of a run came from.
std::vector<std::string> origins(const std::string& run) {
  std::vector<std::string> origins;
  std::ifstream file(run + "/events.jsonl");
  for (std::string line; std::getline(file, line);) {
    const auto row = nlohmann::json::parse(line);
    if (row.at("kind") == "recovered") origins.push_back(row.at("from"));
  }
  return origins;
}

struct Layout {
  std::string name;
  Keys keys;
};

}  // namespace

BOOST_AUTO_TEST_CASE(shared_experts_train_as_those_of_one_process) {
  const Workplace place;
  const Numbers one = trained(place, "one", kExperts);
  const std::vector<Layout> layouts{
      {"two", kTwo},
      {"four", kFour},
      {"each", with(kExperts, {{"mesh.dp", "4"}, {"mesh.ep", "4"}})},
      {"pipeline", with(kTwo, {{"mesh.pp", "2"}})},
      {"combined", with(kTwo, {{"mesh.pp", "2"},
                               {"schedule.kind", "\"combined-1f1b\""},
                               {"model.num_hidden_layers", "4"}})},
      {"shards", with(kTwo, {{"mesh.tp", "2"}})},
      {"sequence", with(kTwo, {{"mesh.tp", "2"}, {"mesh.sequence_parallel", "true"}})},
      {"whole",
       with(kTwo, {{"mesh.tp", "2"}, {"mesh.sequence_parallel", "true"}, {"mesh.etp", "1"}})},
      {"recompute", with(kTwo, {{"recompute.mode", "\"full\""}})},
      {"optim", with(kFour, {{"data_parallel.sharding", "\"optim\""}})},
      {"gradients", with(kFour, {{"data_parallel.sharding", "\"optim_grads\""}})},
      {"weights", with(kFour, {{"data_parallel.sharding", "\"optim_grads_params\""}})},
      {"all alone", with(kTwo, {{"data_parallel.sharding", "\"optim_grads_params\""},
                                {"recompute.mode", "\"full\""}})},
      {"gathered", with(kFour, {{"data_parallel.sharding", "\"optim_grads_params\""},
                                {"data_parallel.reshard_after_forward", "false"}})},
      {"alone", with(kTwo, {{"data_parallel.sharding", "\"optim_grads\""}})},
      {"instances", with(kExperts, {{"mesh.dp", "8"},
                                    {"mesh.ep", "2"},
                                    {"data_parallel.sharding", "\"optim\""},
                                    {"data_parallel.num_optimizer_instances", "2"}})}};
  for (const auto& [name, keys] : layouts) {
    const bool is_deep = keys.at("model.num_hidden_layers") != "2";
    const Numbers expected =
        is_deep ? trained(place, name + " one", with(kExperts, {{"model.num_hidden_layers", "4"}}))
                : one;
    BOOST_TEST(distance(trained(place, name, keys), expected) < kTolerance, name);
  }
}

BOOST_AUTO_TEST_CASE(a_layout_of_experts_has_the_same_bits_again) {
  const Workplace place;
  const Numbers two = trained(place, "two", kTwo);
  check_same(trained(place, "again", kTwo), two, "again");
  check_same(trained(place, "pipeline", with(kTwo, {{"mesh.pp", "2"}})), two, "pp 2");
  const Numbers four = trained(place, "four", kFour);
  const Keys optim{{"data_parallel.sharding", "\"optim\""}};
  check_same(trained(place, "optim", with(kFour, optim)), four, "sharding = optim");
}

BOOST_AUTO_TEST_CASE(checkpoints_are_resumed_with_any_sharing_of_experts) {
  const Workplace place;
  const Keys half{{"run.max_steps", "3"}};
  trained(place, "half", with(kTwo, half));
  trained(place, "of one", with(kExperts, half));
  const auto resumed = [&](const std::string& name, const std::string& from, const Keys& keys) {
    return trained(place, name,
                   with(keys, {{"checkpoint.resume", '"' + place.checkpoint(from, 3) + '"'}}));
  };
  const Numbers whole = trained(place, "whole", kTwo);
  check_same(resumed("two", "half", kTwo), whole, "resumed");
  BOOST_TEST(distance(resumed("one", "half", kExperts), whole) < kTolerance);
  BOOST_TEST(distance(resumed("four", "half", kFour), whole) < kTolerance);
  BOOST_TEST(distance(resumed("from one", "of one", kTwo), whole) < kTolerance);
}

BOOST_AUTO_TEST_CASE(a_death_costs_shared_experts_nothing) {
  std::mt19937_64 random(fresh_seed());
  const Keys endless{{"run.max_steps", "100000000"}, {"optimizer.lr", "3e-4"}};
  const Workplace place;
  const std::vector<Layout> layouts{
      {"copies", kTwo},
      {"places", kFour},
      {"twins", with(kFour, {{"data_parallel.sharding", "\"optim\""}})}};
  for (const auto& [name, keys] : layouts) {
    const std::string run = place.run(name);
    TroupeProgram program({"launch", place.manifest(name, with(keys, endless))});
    BOOST_REQUIRE(program.read_until("step 3/"));
    const auto workers = workers_of(run);
    BOOST_REQUIRE(!workers.empty());
    kill(workers[random() % workers.size()], SIGKILL);
    BOOST_REQUIRE(program.read_until("recovered at step"));
    read_new_steps(program, run, 4);
    program.signal(SIGTERM);
    BOOST_TEST(program.finish().exit_code == 0);
    const Numbers numbers = step_numbers(run);
    const Keys calm{{"run.max_steps", std::to_string(numbers.size())}};
    check_same(numbers, trained(place, name + " calm", with(with(keys, endless), calm)), name);
    BOOST_TEST((origins(run) == std::vector<std::string>{"memory"}), name);
  }
}

BOOST_AUTO_TEST_CASE(an_order_changes_how_experts_are_shared) {
  const Workplace place;
  const Keys endless{{"run.max_steps", "100000000"}, {"optimizer.lr", "3e-4"}, {"mesh.dp", "2"}};
  const Keys keys = with(kExperts, endless);
  const std::string run = place.run("live");
  TroupeProgram program({"launch", place.manifest("live", keys)});
  BOOST_REQUIRE(program.read_until("step 3/"));
  for (const char* ep : {"2", "1", "2"}) {
    const Finished done = troupe({"scale", run, "--ep", ep});
    BOOST_TEST(done.exit_code == 0, done.err);
    read_new_steps(program, run, 3);
  }
  const Finished wrong = troupe({"scale", run, "--ep", "3"});
  BOOST_TEST(wrong.exit_code == 64);
  BOOST_TEST(wrong.err.find("nearest: ep = 2") != std::string::npos, wrong.err);
  program.signal(SIGTERM);
  BOOST_TEST(program.finish().exit_code == 0);
  const Numbers numbers = step_numbers(run);
  const Keys calm{{"run.max_steps", std::to_string(numbers.size())}};
  // What rounding does grows with the steps, of which a fast machine makes many.
  BOOST_TEST(distance(numbers, trained(place, "calm", with(keys, calm))) < 10 * kTolerance);
}

BOOST_AUTO_TEST_CASE(a_manifest_that_cannot_share_experts_out_is_refused) {
  const Workplace place;
  const auto refused = [&](const std::string& name, const Keys& keys, const std::string& text) {
    const Finished plan = troupe({"plan", place.manifest(name, keys)});
    BOOST_TEST(plan.exit_code == 78, name);
    BOOST_TEST(plan.err.find(text) != std::string::npos, plan.err);
  };
  refused("three", with(kTwo, {{"mesh.ep", "3"}}),
          "mesh.ep = 3 must divide the 4 experts of a layer (model.num_experts) and the 2 replicas "
          "(dp); nearest: ep = 2");
  refused("dense", {{"mesh.dp", "2"}, {"mesh.ep", "2"}}, "nearest: ep = 1");
  refused("etp", with(kTwo, {{"mesh.etp", "1"}, {"mesh.tp", "2"}}), "mesh.sequence_parallel");
  refused("etp of tp", with(kTwo, {{"mesh.etp", "3"}, {"mesh.tp", "2"}}), "nearest: etp = 2");
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test
