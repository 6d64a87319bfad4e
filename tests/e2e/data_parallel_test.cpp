#include <signal.h>

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <set>

#include "tests/support/seed.h"
#include "tests/support/trained_run.h"

// Tests how the replicas of launched runs reduce their gradients, by what a run leaves behind.

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(data_parallel_test)

namespace {

using nlohmann::json;

const Keys kTwo{{"mesh.dp", "2"}};

Keys reduced(const Keys& keys, Keys mesh = kTwo) {
  for (const auto& [key, value] : keys) mesh["data_parallel." + key] = value;
  return mesh;
}

std::vector<json> rows_of(const std::string& path) {
  std::vector<json> rows;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) rows.push_back(json::parse(line));
  return rows;
}

/// The last step's collectives of one group.
json collectives(const Workplace& place, const std::string& run, const std::string& group) {
  const auto rows = rows_of(place.run(run) + "/metrics.jsonl");
  BOOST_REQUIRE(!rows.empty());
  for (const json& row : rows.back().at("collectives"))
    if (row.at("group") == group) return row;
  return {};
}

void check_same(const Numbers& numbers, const Numbers& expected, const std::string& name) {
  BOOST_TEST(numbers.size() == expected.size());
  for (const auto& [step, values] : expected)
    BOOST_TEST((numbers.at(step) == values), name << " differs at step " << step);
}

}  // namespace

BOOST_AUTO_TEST_CASE(buckets_and_overlap_change_no_bit_of_a_run) {
  const Workplace place;
  int number = 0;
  for (const Keys& mesh :
       {kTwo, Keys{{"mesh.dp", "2"}, {"mesh.pp", "2"}, {"model.tie_word_embeddings", "true"}}}) {
    const auto run = [&](const Keys& keys) {
      return trained(place, "run" + std::to_string(number++), reduced(keys, mesh));
    };
    const Numbers base = run({{"num_buckets", "1"}, {"overlap_grad_reduce", "false"}});
    check_same(run({}), base, "the default");
    check_same(run({{"bucket_size", "1"}}), base, "a bucket for each parameter");
    check_same(run({{"num_buckets", "5"}}), base, "five buckets");
    Keys one = mesh;
    one["mesh.dp"] = "1";
    BOOST_TEST(distance(trained(place, "one" + std::to_string(number++), one), base) < 1e-6);
  }
}

BOOST_AUTO_TEST_CASE(a_divided_state_changes_no_bit_of_a_run) {
  const Workplace place;
  int number = 0;
  for (const Keys& mesh : {kTwo, Keys{{"mesh.dp", "2"}, {"mesh.tp", "2"}},
                           Keys{{"mesh.dp", "3"}, {"mesh.pp", "2"}, {"batch.global", "12"}}}) {
    const auto run = [&](const Keys& keys) {
      return trained(place, "divided" + std::to_string(number++), reduced(keys, mesh));
    };
    const Numbers base = run({});
    const Keys optim{{"sharding", "\"optim\""}};
    check_same(run(optim), base, "divided");
    Keys apart = optim;
    apart["bucket_size"] = "1";
    apart["overlap_param_gather"] = "false";
    check_same(run(apart), base, "divided, in many buckets");
  }
}

BOOST_AUTO_TEST_CASE(metrics_tell_what_travelled) {
  const Workplace place;
  const json plan = json::parse(troupe({"plan", place.manifest("plan", kTwo), "--json"}).out);
  const std::int64_t parameters = plan.at("parameters");
  for (const auto& [wire, width] : {std::pair{"\"float32\"", 4}, {"\"bfloat16\"", 2}}) {
    const std::string name = "bytes" + std::to_string(width);
    trained(place, name, reduced({{"num_buckets", "4"}, {"grad_reduce_dtype", wire}}));
    const json row = collectives(place, name, "replicas of stage 0");
    BOOST_REQUIRE(!row.is_null());
    BOOST_TEST(row.at("op") == "all-reduce");
    BOOST_TEST(row.at("count") == 4);
    const std::int64_t bytes = row.at("bytes");
    BOOST_TEST(bytes >= width * parameters);
    BOOST_TEST(bytes <= width * parameters * 1.1);  // padding between these small parameters
    BOOST_TEST(row.at("time_s") > 0);
    BOOST_TEST(row.at("exposed_s") >= 0);
  }
  trained(place, "tied",
          {{"mesh.pp", "2"}, {"model.tie_word_embeddings", "true"}, {"run.max_steps", "2"}});
  BOOST_TEST(collectives(place, "tied", "tied embedding").at("count") == 1);
}

BOOST_AUTO_TEST_CASE(a_trace_shows_reductions_beside_backwards) {
  const Workplace place;
  const Keys endless =
      reduced({{"bucket_size", "1"}}, {{"mesh.dp", "2"}, {"run.max_steps", "100000000"}});
  TroupeProgram program({"launch", place.manifest("traced", endless)});
  BOOST_REQUIRE(program.read_until("step 3/"));
  const std::string file = (place.dir / "trace.json").string();
  const Finished done = troupe({"trace", place.run("traced"), "--steps", "1", "-o", file});
  BOOST_REQUIRE_MESSAGE(done.exit_code == 0, done.err);
  std::map<int, double> last_action_us;
  std::map<int, std::vector<double>> begins_us;
  std::map<std::string, int> open;
  const json trace = json::parse(content_of(file));
  for (const json& event : trace.at("traceEvents")) {
    const std::string phase = event.at("ph"), category = event.value("cat", "");
    if (phase == "X" && category == "action") {
      double& last = last_action_us[event.at("pid")];
      last = std::max(last, event.at("ts").get<double>() + event.at("dur").get<double>());
    }
    if (category != "collective") continue;
    BOOST_TEST(event.at("name") == "all-reduce");
    BOOST_TEST(event.at("args").at("group") == "replicas of stage 0");
    open[event.at("id")] += phase == "b" ? 1 : -1;
    if (phase == "b") begins_us[event.at("pid")].push_back(event.at("ts"));
  }
  for (const auto& [id, count] : open) BOOST_TEST(count == 0);
  BOOST_REQUIRE(begins_us.size() == 2u);
  for (const auto& [rank, begins] : begins_us) {
    BOOST_TEST(begins.size() >= 39u);  // a bucket for each parameter, or those of one product
    BOOST_TEST(std::ranges::min(begins) < last_action_us.at(rank));
  }
  program.signal(SIGTERM);
  BOOST_TEST(program.finish().exit_code == 0);
}

BOOST_AUTO_TEST_CASE(a_bfloat16_wire_is_near_float32_and_does_not_depend_on_buckets) {
  const Workplace place;
  const Numbers exact = trained(place, "exact", kTwo);
  const Numbers rounded =
      trained(place, "rounded", reduced({{"grad_reduce_dtype", "\"bfloat16\""}}));
  BOOST_TEST((rounded != exact));
  BOOST_TEST(distance(rounded, exact) < 1e-4);
  check_same(trained(place, "tiny",
                     reduced({{"grad_reduce_dtype", "\"bfloat16\""}, {"bucket_size", "500"}},
                             {{"mesh.dp", "2"}, {"mesh.pp", "2"}})),
             rounded, "tiny buckets on two stages");
  const auto bytes_of = [&](const char* wire) {
    const json plan = json::parse(
        troupe({"plan", place.manifest("plan", reduced({{"grad_reduce_dtype", wire}})), "--json"})
            .out);
    const json memory = plan.at("ranks").at(0).at("memory_bytes");
    std::int64_t sum = 0;
    for (const auto& [part, bytes] : memory.items())
      if (part != "total") sum += bytes.get<std::int64_t>();
    BOOST_TEST(sum == memory.at("total"));
    return std::pair{memory.at("buckets").get<std::int64_t>(),
                     memory.at("gradients").get<std::int64_t>()};
  };
  BOOST_TEST(bytes_of("\"float32\"").first == 0);
  const auto [buckets, gradients] = bytes_of("\"bfloat16\"");
  BOOST_TEST(2 * buckets == gradients);
}

BOOST_AUTO_TEST_CASE(a_gradient_that_is_not_finite_is_named_before_it_is_summed) {
  const Workplace place;
  Keys wild = reduced({{"check_for_nan", "true"}});
  // The first update makes weights whose gradients overflow, but, in a model of this width, no
  // loss.
  wild["optimizer.lr"] = "1e25";
  wild["model.hidden_size"] = "96";
  wild["model.intermediate_size"] = "224";
  wild["model.num_attention_heads"] = "6";
  wild["batch.seq_len"] = "32";
  wild["optimizer.clip"] = "0.0";
  wild["optimizer.warmup_steps"] = "0";
  wild["optimizer.weight_decay"] = "0.0";
  const Finished done = troupe({"launch", place.manifest("wild", wild)});
  BOOST_TEST(done.exit_code == 70);
  for (const char* word :
       {"step 2", "rank ", "bucket ", ".weight", "not finite before it is summed"})
    BOOST_TEST(done.err.find(word) != std::string::npos, word << " in " << done.err);
}

BOOST_AUTO_TEST_CASE(large_buckets_are_events_that_change_nothing) {
  const Workplace place;
  const Keys few{{"run.max_steps", "3"}, {"mesh.dp", "2"}};
  const Numbers quiet = trained(place, "quiet", few);
  check_same(
      trained(place, "large", reduced({{"large_grad_norm", "1e-6"}, {"num_buckets", "2"}}, few)),
      quiet, "a run with reports");
  std::multiset<std::tuple<int, int, int>> seen, expected;
  for (const json& row : rows_of(place.run("large") + "/events.jsonl")) {
    if (row.at("kind") != "large_gradient") continue;
    seen.emplace(row.at("rank"), row.at("step"), row.at("bucket"));
    BOOST_TEST(row.at("norm") > 1e-6);
  }
  for (const int rank : {0, 1})
    for (const int step : {1, 2, 3})
      for (const int bucket : {0, 1}) expected.emplace(rank, step, bucket);
  BOOST_TEST((seen == expected));
}

BOOST_AUTO_TEST_CASE(a_run_with_small_buckets_loses_a_replica_and_changes_their_number) {
  const Workplace place;
  std::mt19937_64 random(fresh_seed());
  const Keys endless =
      reduced({{"bucket_size", "1000"}},
              {{"mesh.dp", "2"}, {"run.max_steps", "100000000"}, {"batch.global", "24"}});
  const Numbers calm = trained(place, "calm", with(endless, {{"run.max_steps", "20"}}));
  const std::string run = place.run("live");
  TroupeProgram program({"launch", place.manifest("live", endless)});
  BOOST_REQUIRE(program.read_until("step 3/"));
  for (int death = 0; death < 2; ++death) {
    const auto workers = workers_of(run);
    BOOST_REQUIRE(!workers.empty());
    kill(workers[random() % workers.size()], SIGKILL);
    BOOST_REQUIRE(program.read_until("recovered at step"));
    read_new_steps(program, run, 4);
  }
  read_new_steps(program, run, 20);
  check_same(until_step(20, step_numbers(run)), calm, "a run with two deaths");
  for (const char* dp : {"3", "1"}) {
    BOOST_TEST(troupe({"scale", run, "--dp", dp}).exit_code == 0);
    read_new_steps(program, run, 3);
  }
  program.signal(SIGTERM);
  BOOST_TEST(program.finish().exit_code == 0);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test
