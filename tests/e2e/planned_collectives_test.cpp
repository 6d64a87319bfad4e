#include <boost/test/unit_test.hpp>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "tests/support/trained_run.h"

// Tests that a launched run does the collectives among replicas that its plan names, in number and
// bytes.

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(planned_collectives_test)

namespace {

using nlohmann::json;

/// Count and bytes, by stage and operation. Bytes of slices are left out, because the metrics are
/// of the replica that took longest, and the plan of the first one.
using Collectives = std::map<std::pair<int, std::string>, std::pair<int, std::int64_t>>;

void add(Collectives& all, const json& row, int stage) {
  const std::string operation = row.at("op");
  const bool is_whole = operation == "reduce-scatter" || operation == "all-gather";
  all[{stage, operation}] = {row.at("count"), is_whole ? row.at("bytes").get<std::int64_t>() : 0};
}

/// Checks that the plan names each unit that is gathered, in the order of a pass.
void check_gathers(const json& row, const Collectives& all) {
  const auto& [count, bytes] = all.at({row.at("stage"), "all-gather"});
  const json &forward = row.at("forward"), &backward = row.at("backward");
  BOOST_TEST(static_cast<std::size_t>(count) == forward.size() + backward.size());
  const std::string first = forward.front();
  BOOST_TEST((row.at("stage") == 0 ? first == "embedding" : first.starts_with("layer ")), first);
  BOOST_TEST(row.at("at_once") >= 2);
}

Collectives planned(const Workplace& place, const std::string& name, const Keys& keys) {
  const Finished done = troupe({"plan", place.manifest(name, keys), "--json"});
  BOOST_REQUIRE_MESSAGE(done.exit_code == 0, done.err);
  Collectives all;
  const json plan = json::parse(done.out);
  for (const json& row : plan.at("collectives")) add(all, row, row.at("stage"));
  const bool gathers = keys.contains("data_parallel.sharding") &&
                       keys.at("data_parallel.sharding") == "\"optim_grads_params\"";
  BOOST_TEST(!plan.at("gathers").empty() == gathers);
  for (const json& row : plan.at("gathers")) check_gathers(row, all);
  return all;
}

/// What the last step did among replicas, twins and instances; not what it did with other stages.
Collectives measured(const Workplace& place, const std::string& name) {
  std::ifstream file(place.run(name) + "/metrics.jsonl");
  std::string last;
  for (std::string line; std::getline(file, line);) last = line;
  Collectives all;
  const json step = json::parse(last);
  for (const json& row : step.at("collectives")) {
    const std::string group = row.at("group");
    const auto at = group.find(" of stage ");
    if (at == std::string::npos) continue;
    add(all, row, std::stoi(group.substr(at + 10)));
  }
  return all;
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_run_does_the_collectives_that_its_plan_names) {
  const Workplace place;
  const Keys few{{"run.max_steps", "3"}};
  const Keys two = with(few, {{"mesh.dp", "2"}});
  const std::vector<Keys> shapes{
      two, with(two, {{"mesh.pp", "2"}, {"model.tie_word_embeddings", "true"}}),
      with(two, {{"model.tie_word_embeddings", "true"}, {"recompute.mode", "\"full\""}}),
      with(two, {{"mesh.pp", "2"},
                 {"schedule.kind", "\"interleaved\""},
                 {"schedule.chunks", "2"},
                 {"mesh.tp", "2"}})};
  const std::vector<Keys> ways{
      {},
      {{"sharding", "\"optim\""}, {"num_buckets", "3"}},
      {{"sharding", "\"optim_grads\""}, {"grad_reduce_dtype", "\"bfloat16\""}},
      {{"sharding", "\"optim_grads_params\""}},
      {{"sharding", "\"optim_grads_params\""}, {"prefetch", "3"}, {"reduce_every", "\"step\""}},
      {{"sharding", "\"optim_grads_params\""}, {"reshard_after_forward", "false"}}};
  int number = 0;
  for (const Keys& shape : shapes)
    for (const Keys& way : ways) {
      Keys keys = shape;
      for (const auto& [key, value] : way) keys["data_parallel." + key] = value;
      const std::string name = "run" + std::to_string(number++);
      trained(place, name, keys);
      const Collectives plan = planned(place, name, keys), run = measured(place, name);
      BOOST_TEST(!plan.empty());
      BOOST_TEST((plan == run), name);
    }
}

BOOST_AUTO_TEST_CASE(instances_exchange_slices_alone) {
  const Workplace place;
  const Keys keys{{"run.max_steps", "3"},
                  {"mesh.dp", "4"},
                  {"data_parallel.sharding", "\"optim_grads_params\""},
                  {"data_parallel.num_optimizer_instances", "2"}};
  trained(place, "instances", keys);
  const Collectives plan = planned(place, "instances", keys), run = measured(place, "instances");
  BOOST_TEST((plan == run));
  BOOST_TEST(run.contains({0, "all-reduce"}));
  BOOST_TEST(!run.contains({0, "all-to-all"}));
}

BOOST_AUTO_TEST_CASE(replicas_of_the_same_experts_reduce_these_alone) {
  const Workplace place;
  for (const char* sharding : {"none", "optim", "optim_grads"}) {
    const Keys keys{
        {"run.max_steps", "3"},     {"model.kind", "\"mixtral\""},
        {"model.num_experts", "4"}, {"model.num_experts_per_tok", "2"},
        {"batch.micro", "1"},       {"mesh.dp", "4"},
        {"mesh.ep", "2"},           {"data_parallel.sharding", '"' + std::string(sharding) + '"'}};
    trained(place, sharding, keys);
    const Collectives plan = planned(place, sharding, keys), run = measured(place, sharding);
    BOOST_TEST((plan == run), sharding);
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test
