#include <signal.h>

#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "tests/support/run_tensors.h"
#include "tests/support/trained_run.h"

// [[optimizer.group]] in launched runs. What a group does to an update is compared with PyTorch's
// numbers in tests/stages/optimizer_test.cpp.

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(parameter_groups_test)

namespace {

using nlohmann::json;

const Keys kGroups{{"optimizer.group",
                    "[{match = \"model.layers.[01].*\", frozen = true}, "
                    "{match = \"model.embed_tokens.*\", frozen = true}, "
                    "{match = \"*norm*\", lr_scale = 3, weight_decay = 0.5}]"},
                   {"checkpoint.initial", "true"},
                   {"batch.global", "24"}};
const Keys kEndless{{"run.max_steps", "100000000"}};

bool is_frozen(const std::string& tensor) {
  return tensor.starts_with("model.embed") || tensor.starts_with("model.layers.0.") ||
         tensor.starts_with("model.layers.1.");
}

/// Frozen weights of the checkpoint are those of step 0, all others are not; none has moments.
void check_frozen(const std::string& run, int step) {
  const auto directory = run + "/checkpoints/step-";
  const auto first = tensors_in(directory + "0"),
             last = tensors_in(directory + std::to_string(step));
  int moments = 0;
  for (const auto& [name, bytes] : last) {
    const bool is_moment = name.find(".exp_avg") != name.npos;
    BOOST_TEST(!(is_moment && is_frozen(name)), name);
    moments += is_moment ? 1 : 0;
    if (!is_moment) BOOST_TEST((bytes == first.at(name)) == is_frozen(name), name);
  }
  BOOST_TEST(moments == 2 * (4 * 9 + 2));
}

void check_same(const Numbers& numbers, const Numbers& expected) {
  BOOST_TEST(!numbers.empty());
  for (const auto& [step, values] : numbers)
    BOOST_TEST((values == expected.at(step)), "differs at step " << step);
}

}  // namespace

BOOST_AUTO_TEST_CASE(groups_hold_through_losses_changes_and_resumes) {
  const Workplace place;
  const Keys live = with(with(kGroups, kEndless), {{"mesh.pp", "2"}});
  const std::string dir = place.run("live");
  TroupeProgram program({"launch", place.manifest("live", live)});
  BOOST_REQUIRE(program.read_until("step 2/"));
  kill(workers_of(dir).at(0), SIGKILL);  // its state comes from its neighbour's copy
  BOOST_REQUIRE(program.read_until("recovered at step"));
  read_new_steps(program, dir, 3);
  BOOST_TEST(troupe({"scale", dir, "--pp", "3"}).exit_code == 0);
  read_new_steps(program, dir, 3);
  program.signal(SIGTERM);
  BOOST_TEST(program.finish().exit_code == 0);
  const int stopped = step_numbers(dir).rbegin()->first, last = stopped + 3;
  check_frozen(dir, stopped);
  // Released without moments, it would not be trained as it had been.
  const Finished released = troupe({"launch", "--resume", dir, "--set", "optimizer.group=[]"});
  BOOST_TEST(released.exit_code == 65);
  BOOST_TEST(released.err.find("model.embed_tokens.weight, ") != std::string::npos, released.err);
  BOOST_TEST(released.err.find("were frozen up to step") != std::string::npos, released.err);
  const Finished resumed = troupe({"launch", "--resume", dir, "--set", "mesh.pp=1", "--set",
                                   "run.max_steps=" + std::to_string(last)});
  BOOST_TEST(resumed.exit_code == 0, resumed.err);
  BOOST_TEST(resumed.out.find(" train)") != std::string::npos, resumed.out);
  check_frozen(dir, last);
  const Keys calm = with(kGroups, {{"run.max_steps", std::to_string(last)}});
  check_same(step_numbers(dir), trained(place, "calm", calm));
}

BOOST_AUTO_TEST_CASE(replicas_that_divide_the_state_have_groups_too) {
  const Workplace place;
  const Keys tied = with(kGroups, {{"mesh.dp", "2"}, {"run.max_steps", "8"}});
  const Numbers whole = trained(place, "whole", tied);
  for (const char* sharding : {"optim", "optim_grads_params"}) {
    Keys keys = with(tied, {{"data_parallel.sharding", '"' + std::string(sharding) + '"'}});
    if (keys.at("data_parallel.sharding") != "\"optim\"")
      keys["data_parallel.reduce_every"] = "\"step\"";
    const std::string dir = place.run(sharding);
    TroupeProgram program({"launch", place.manifest(sharding, with(keys, kEndless))});
    BOOST_REQUIRE(program.read_until("step 2/"));
    kill(workers_of(dir).at(1), SIGKILL);  // its slice comes from its twin
    BOOST_REQUIRE(program.read_until("recovered at step"));
    check_same(stop_after(8, program, dir), whole);
  }
  BOOST_TEST(distance(trained(place, "shards", with(tied, {{"mesh.tp", "2"}, {"mesh.dp", "1"}})),
                      whole) < 2e-6);
}

BOOST_AUTO_TEST_CASE(plan_tells_what_trains) {
  const Workplace place;
  const std::string manifest = place.manifest("plan", kGroups);
  const json plan = json::parse(troupe({"plan", manifest, "--json"}).out);
  const std::int64_t all = plan.at("parameters"), trained = plan.at("trained_parameters");
  std::int64_t frozen = 0;
  for (const json& group : plan.at("groups"))
    if (group.at("frozen")) frozen += group.at("parameters").get<std::int64_t>();
  BOOST_TEST(frozen > 0);
  BOOST_TEST(all - trained == frozen);
  const std::string text = troupe({"plan", manifest}).out;
  BOOST_TEST(text.find("groups    model.layers.[01].*: 18 tensors, ") != std::string::npos, text);
  const Finished wrong = troupe(
      {"plan", manifest, "--set", "optimizer.group=[{match = \"*.gate.weight\", frozen = true}]"});
  BOOST_TEST(wrong.exit_code == 78);
  BOOST_TEST(wrong.err.find("'model.layers.*.mlp.gate_proj.weight'") != std::string::npos,
             wrong.err);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test
