#include <signal.h>

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <random>

#include "tests/support/run_tensors.h"
#include "tests/support/seed.h"
#include "tests/support/trained_run.h"

// Runs whose replicas divide the training state against runs in which each keeps all of it.

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(sharding_test)

namespace {

namespace fs = std::filesystem;
using nlohmann::json;

const Keys kOptim{{"data_parallel.sharding", "\"optim\""}};
/// More replicas divide the batch.
const Keys kSix{{"batch.global", "12"}};

void check_same(const Numbers& numbers, const Numbers& expected, const std::string& name) {
  BOOST_TEST(!numbers.empty());
  for (const auto& [step, values] : numbers)
    BOOST_TEST((values == expected.at(step)), name << " differs at step " << step);
}

/// Where the state of each recovery of a run came from.
std::vector<std::string> origins(const std::string& run) {
  std::vector<std::string> origins;
  std::ifstream file(run + "/events.jsonl");
  for (std::string line; std::getline(file, line);)
    if (const json row = json::parse(line); row.at("kind") == "recovered")
      origins.push_back(row.at("from"));
  return origins;
}

/// A launched run that a test disturbs.
class LiveRun {
 public:
  LiveRun(const Workplace& place, const std::string& name, const Keys& keys)
      : dir_(place.run(name)), program_({"launch", place.manifest(name, keys)}) {
    BOOST_REQUIRE(program_.read_until("step 3/"));
  }
  void lose_a_worker(std::mt19937_64& random) {
    const auto workers = workers_of(dir_);
    BOOST_REQUIRE(!workers.empty());
    kill(workers[random() % workers.size()], SIGKILL);
    BOOST_REQUIRE(program_.read_until("recovered at step"));
    go_on(4);
  }
  /// Returns once the checkpoint is complete; those of an interval are written beside the steps.
  void save() { BOOST_REQUIRE(troupe({"checkpoint", dir_}).exit_code == 0); }
  void go_on(int steps) { read_new_steps(program_, dir_, steps); }
  void scale(const std::string& option, const std::string& number) {
    BOOST_TEST(troupe({"scale", dir_, option, number}).exit_code == 0);
    go_on(3);
  }
  void stop() {
    program_.signal(SIGTERM);
    BOOST_TEST(program_.finish().exit_code == 0);
  }
  Numbers numbers() const { return step_numbers(dir_); }
  std::vector<std::string> origins() const { return sharding_test::origins(dir_); }

 private:
  const std::string dir_;
  TroupeProgram program_;
};

const Keys kEndless{
    {"run.max_steps", "100000000"}, {"batch.global", "24"}, {"optimizer.lr", "3e-4"}};

/// As many steps as a disturbed run has made, of a run that nobody disturbs.
Numbers calm(const Workplace& place, const std::string& name, const Keys& keys,
             const LiveRun& run) {
  const std::string steps = std::to_string(run.numbers().size());
  return trained(place, name, with(keys, {{"run.max_steps", steps}}));
}

}  // namespace

BOOST_AUTO_TEST_CASE(no_schedule_sees_a_divided_state) {
  const Workplace place;
  const Keys tied{{"mesh.dp", "2"}, {"model.tie_word_embeddings", "true"}};
  const Numbers base = trained(place, "base", tied);
  for (const auto& [kind, chunks] : std::map<std::string, std::string>{
           {"1f1b", "1"}, {"interleaved", "2"}, {"zb-h1", "1"}, {"combined-1f1b", "2"}}) {
    const Keys keys = with(
        tied, {{"mesh.pp", "2"}, {"schedule.kind", '"' + kind + '"'}, {"schedule.chunks", chunks}});
    check_same(trained(place, kind, with(keys, kOptim)), base, kind);
  }
}

BOOST_AUTO_TEST_CASE(a_divided_state_is_seen_in_metrics_and_plan) {
  const Workplace place;
  const Keys keys = with(kOptim, {{"mesh.dp", "2"}, {"data_parallel.num_buckets", "4"}});
  trained(place, "seen", with(keys, {{"run.max_steps", "2"}}));
  std::ifstream file(place.run("seen") + "/metrics.jsonl");
  std::string line, last;
  while (std::getline(file, line)) last = line;
  std::map<std::string, json> rows;
  const json row = json::parse(last);
  for (const json& collective : row.at("collectives")) rows[collective.at("op")] = collective;
  for (const char* op : {"reduce-scatter", "all-gather"}) {
    BOOST_REQUIRE(rows.contains(op));
    BOOST_TEST(rows[op].at("group") == "replicas of stage 0");
    BOOST_TEST(rows[op].at("count") == 4);
    BOOST_TEST(rows[op].at("time_s") > 0);
  }
  BOOST_REQUIRE(rows.contains("all-to-all"));
  BOOST_TEST(rows["all-to-all"].at("group") == "twins of stage 0");
  const json plan = json::parse(troupe({"plan", place.manifest("plan", keys), "--json"}).out);
  const std::int64_t total = plan.at("ranks").at(0).at("memory_bytes").at("total");
  BOOST_TEST(plan.at("sharding").at("optim") >= total);
  BOOST_TEST(plan.at("sharding").at("none") > 0);
}

BOOST_AUTO_TEST_CASE(a_death_costs_a_divided_state_nothing) {
  const Workplace place;
  std::mt19937_64 random(fresh_seed());
  for (const Keys& mesh :
       {Keys{{"mesh.dp", "2"}}, Keys{{"mesh.dp", "3"}}, Keys{{"mesh.dp", "2"}, {"mesh.pp", "2"}}}) {
    const Keys keys =
        with(with(kEndless, mesh), with(kOptim, {{"data_parallel.bucket_size", "30000"}}));
    const std::string name = std::to_string(mesh.size()) + mesh.at("mesh.dp");
    LiveRun run(place, "live" + name, keys);
    run.lose_a_worker(random);
    run.lose_a_worker(random);
    run.go_on(4);
    run.stop();
    check_same(run.numbers(), calm(place, "calm" + name, with(kEndless, mesh), run), name);
    BOOST_TEST((run.origins() == std::vector<std::string>{"memory", "memory"}));
  }
}

BOOST_AUTO_TEST_CASE(without_twins_a_death_costs_the_steps_since_the_last_checkpoint) {
  const Workplace place;
  std::mt19937_64 random(fresh_seed());
  const Keys two = with(kEndless, {{"mesh.dp", "2"}});
  LiveRun run(place, "live", with(with(two, kOptim), {{"recovery.neighbour_copies", "false"}}));
  run.save();
  run.lose_a_worker(random);
  run.stop();
  check_same(run.numbers(), calm(place, "calm", two, run), "a run without twins");
  BOOST_TEST((run.origins() == std::vector<std::string>{"checkpoint"}));
}

BOOST_AUTO_TEST_CASE(replicas_come_and_go_with_their_slices) {
  const Workplace place;
  std::mt19937_64 random(fresh_seed());
  const Keys two = with(kEndless, {{"mesh.dp", "2"}});
  LiveRun run(place, "live", with(two, kOptim));
  for (const char* dp : {"4", "3", "1", "2"}) {
    run.scale("--dp", dp);
    if (dp != std::string("1")) run.lose_a_worker(random);
  }
  run.scale("--pp", "2");
  run.stop();
  const Numbers numbers = run.numbers();
  BOOST_TEST(distance(numbers, calm(place, "calm", two, run)) < 1e-5);
  int expected = 1;
  for (const auto& [step, values] : numbers) BOOST_TEST(step == expected++);
}

/// Each replica keeps gradients, or gradients and weights, of its slices alone.
BOOST_AUTO_TEST_CASE(divided_gradients_and_weights_survive_deaths_and_changes) {
  const Workplace place;
  std::mt19937_64 random(fresh_seed());
  for (const std::string sharding : {"optim_grads", "optim_grads_params"}) {
    const Keys keys = with(
        kEndless,
        {{"mesh.dp", "2"}, {"mesh.pp", "2"}, {"data_parallel.sharding", '"' + sharding + '"'}});
    LiveRun run(place, "live_" + sharding, keys);
    run.lose_a_worker(random);
    const Numbers before = run.numbers();
    run.scale("--dp", "3");
    run.lose_a_worker(random);
    run.stop();
    const Numbers undisturbed = calm(place, "calm_" + sharding, keys, run);
    check_same(before, undisturbed, sharding);
    BOOST_TEST(distance(run.numbers(), undisturbed) < 1e-5);
    BOOST_TEST((run.origins().front() == "memory"));
  }
}

BOOST_AUTO_TEST_CASE(gathered_weights_change_no_bit_of_a_run) {
  const Workplace place;
  const Keys two{{"mesh.dp", "2"}, {"mesh.pp", "2"}};
  const Numbers base =
      trained(place, "base", with(two, {{"data_parallel.sharding", "\"optim_grads\""}}));
  const Keys weights = with(two, {{"data_parallel.sharding", "\"optim_grads_params\""}});
  check_same(trained(place, "gathered", weights), base, "gathered weights");
  check_same(trained(place, "kept",
                     with(weights, {{"data_parallel.reshard_after_forward", "false"},
                                    {"data_parallel.prefetch", "3"}})),
             base, "weights that stay gathered");
}

BOOST_AUTO_TEST_CASE(checkpoints_of_one_sharding_resume_under_another) {
  const Workplace place;
  const Keys two{{"mesh.dp", "2"}, {"run.max_steps", "6"}};
  const Numbers whole = trained(place, "whole", two);
  const std::vector<std::string> shardings{"none", "optim_grads_params", "optim", "optim_grads"};
  for (std::size_t i = 0; i < shardings.size(); ++i) {
    const auto divided = [&](std::size_t number) -> Keys {
      return {{"data_parallel.sharding", '"' + shardings[number % shardings.size()] + '"'}};
    };
    const std::string first = "first" + std::to_string(i);
    trained(place, first, with(with(two, divided(i)), {{"run.max_steps", "3"}}));
    const Keys resumed{{"checkpoint.resume", '"' + place.checkpoint(first, 3) + '"'}};
    const Numbers rest =
        trained(place, "second" + std::to_string(i), with(with(two, divided(i + 1)), resumed));
    BOOST_TEST(rest.size() == 3u);
    BOOST_TEST(distance(rest, whole) < 2e-6);
  }
}

BOOST_AUTO_TEST_CASE(checkpoints_of_any_shape_resume_in_any_other) {
  const Workplace place;
  std::mt19937_64 random(fresh_seed());
  const Keys six = with(kSix, {{"run.max_steps", "6"}});
  const Numbers whole = trained(place, "whole", six);
  const auto any_shape = [&] {
    const auto pick = [&](std::initializer_list<const char*> of) {
      return std::string(of.begin()[random() % of.size()]);
    };
    Keys shape{{"mesh.pp", pick({"1", "2"})},
               {"mesh.tp", pick({"1", "2"})},
               {"mesh.dp", pick({"2", "3"})}};
    if (random() % 4 != 0) shape = with(shape, kOptim);
    return shape;
  };
  for (int i = 0; i < 4; ++i) {
    const std::string number = std::to_string(i);
    const Keys before = any_shape(), after = any_shape();
    trained(place, "first" + number, with(with(six, {{"run.max_steps", "3"}}), before));
    const Keys resumed{{"checkpoint.resume", '"' + place.checkpoint("first" + number, 3) + '"'}};
    const Numbers rest = trained(place, "second" + number, with(with(six, after), resumed));
    BOOST_TEST(rest.size() == 3u);
    BOOST_TEST(distance(rest, whole) < 2e-6);
  }
}

BOOST_AUTO_TEST_CASE(a_checkpoint_has_the_tensors_of_a_state_that_nobody_divides) {
  const Workplace place;
  const Keys three = with(kSix, {{"mesh.dp", "3"}, {"mesh.pp", "2"}, {"run.max_steps", "3"}});
  trained(place, "none", three);
  trained(place, "optim", with(with(three, kOptim), {{"data_parallel.bucket_size", "10000"}}));
  const auto expected = tensors_in(place.checkpoint("none", 3));
  BOOST_TEST(expected.size() > 100u);
  BOOST_TEST((tensors_in(place.checkpoint("optim", 3)) == expected));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test
