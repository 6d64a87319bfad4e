#include <signal.h>

#include <boost/test/unit_test.hpp>
#include <nlohmann/json.hpp>
#include <random>
#include <set>

#include "tests/support/seed.h"
#include "tests/support/trained_run.h"

// Tests runs whose stages differ in replicas and shards, with real processes and real UCX.

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(widths_test)

namespace {

using Json = nlohmann::json;

/// Stages of these widths, written as the value of mesh.stage.
Keys stages(int pp, const std::string& tables) {
  return {{"mesh.pp", std::to_string(pp)}, {"mesh.stage", "[" + tables + "]"}};
}

struct Layout {
  std::string name;
  Keys keys;
  Keys also{};  ///< of the one process too
};

const Keys kPadded{{"batch.documents", "\"padded\""}};
const Keys kPacked{{"batch.documents", "\"packed\""}, {"eval.interval", "3"}, {"eval.steps", "2"}};
const Keys kDropped{{"model.hidden_dropout", "0.1"}, {"model.attention_dropout", "0.1"}};
const Keys kTied{{"model.tie_word_embeddings", "true"}};

const std::vector<Layout>& layouts() {
  static const std::vector<Layout> kLayouts{
      {"dp 2 | dp 1", stages(2, "{dp=2}, {dp=1}")},
      {"dp 1 | dp 2", stages(2, "{dp=1}, {dp=2}")},
      {"tp 2 | tp 1", stages(2, "{tp=2}, {tp=1}")},
      {"tp 1 x dp 2 | tp 2", stages(2, "{tp=1, dp=2}, {tp=2, dp=1}")},
      {"2 | 1 | 2", stages(3, "{dp=2}, {dp=1}, {dp=2}")},
      {"dp 4 | dp 2", stages(2, "{dp=4}, {dp=2}")},
      {"tp 2 | dp 2, with sequence parallelism",
       with(stages(2, "{tp=2}, {dp=2}"), {{"mesh.sequence_parallel", "true"}})},
      {"tp 4 | tp 2, with sequence parallelism",
       with(stages(2, "{tp=4}, {tp=2}"), {{"mesh.sequence_parallel", "true"}})},
      {"2 | 1, interleaved",
       with(stages(2, "{dp=2}, {dp=1}"),
            {{"schedule.kind", "\"interleaved\""}, {"schedule.chunks", "3"}})},
      {"2 | 1, zb-h1", with(stages(2, "{dp=2}, {dp=1}"), {{"schedule.kind", "\"zb-h1\""}})},
      {"tp 2 | dp 2, combined-1f1b",
       with(stages(2, "{tp=2}, {dp=2}"), {{"schedule.kind", "\"combined-1f1b\""}})},
      {"2 | 1, weights divided",
       with(stages(2, "{dp=2}, {dp=1}"), {{"data_parallel.sharding", "\"optim_grads_params\""}})},
      {"tp 2 | dp 2, all computed again",
       with(stages(2, "{tp=2}, {dp=2}"), {{"recompute.mode", "\"full\""}})},
      {"2 | 1, padded", stages(2, "{dp=2}, {dp=1}"), kPadded},
      {"2 | 1, packed", stages(2, "{dp=2}, {dp=1}"), kPacked},
      {"1 | 2 | 4, packed", stages(3, "{dp=1}, {dp=2}, {dp=4}"), kPacked},
      {"tp 2 | tp 1, packed", stages(2, "{tp=2}, {tp=1}"), kPacked},
      {"tp 1 x dp 2 | tp 2 | tp 4, packed", stages(3, "{dp=2}, {tp=2}, {tp=4}"), kPacked},
      {"tp 2 | tp 2 x dp 2, packed, with sequence parallelism",
       with(stages(2, "{tp=2}, {tp=2, dp=2}"), {{"mesh.sequence_parallel", "true"}}), kPacked},
      {"2 | 1, packed and dropped", stages(2, "{dp=2}, {dp=1}"), with(kPacked, kDropped)},
      {"tp 2 | dp 2, packed and dropped, with sequence parallelism",
       with(stages(2, "{tp=2}, {dp=2}"), {{"mesh.sequence_parallel", "true"}}),
       with(kPacked, kDropped)},
      {"dp 2 | tp 2, packed, one shard reads",
       with(stages(2, "{dp=2}, {tp=2}"), {{"data.reader", "\"first-shard\""}}), kPacked},
      {"tp 2 | dp 2, with sequence parallelism and dropout",
       with(stages(2, "{tp=2}, {dp=2}"), {{"mesh.sequence_parallel", "true"}}), kDropped},
      {"tp 2 | tp 2 x dp 2, padded and dropped", stages(2, "{tp=2}, {tp=2, dp=2}"),
       with(kPadded, kDropped)},
      {"2 | 1 | 4, tied", stages(3, "{dp=2}, {dp=1}, {dp=4}"), kTied},
      {"1 | 2, tied, moments divided",
       with(stages(2, "{dp=1}, {dp=2}"), {{"data_parallel.sharding", "\"optim\""}}), kTied},
      {"tp 2 | dp 2, tied", stages(2, "{tp=2}, {dp=2}"), kTied},
      {"dp 2 | tp 4, tied, all divided",
       with(stages(2, "{dp=2}, {tp=4}"), {{"data_parallel.sharding", "\"optim_grads_params\""}}),
       kTied},
      {"4 | 2, tied, gradients divided",
       with(stages(2, "{dp=4}, {dp=2}"), {{"data_parallel.sharding", "\"optim_grads\""}}), kTied},
      {"tp 2 x dp 2 | dp 2, tied, moments divided",
       with(stages(2, "{tp=2, dp=2}, {dp=2}"), {{"data_parallel.sharding", "\"optim\""}}), kTied},
      {"4 | 2, two instances of four",
       with(stages(2, "{dp=4}, {dp=2}"), {{"data_parallel.sharding", "\"optim_grads\""},
                                          {"data_parallel.num_optimizer_instances", "2"}})},
      {"1 | 2 | 2 | 1, dualpipe",
       with(stages(4, "{dp=1}, {dp=2}, {dp=2}, {dp=1}"), {{"schedule.kind", "\"dualpipe\""}})},
  };
  return kLayouts;
}

/// A .jsonl of documents of many lengths.
std::string write_documents(const Workplace& place) {
  std::mt19937_64 random(5);
  std::string lines;
  for (int i = 0; i < 200; ++i) {
    std::string text(2 + random() % (i % 9 == 0 ? 60 : 16), 'a');
    for (char& c : text) c = static_cast<char>('a' + random() % 26);
    lines += Json{{"text", text}}.dump() + "\n";
  }
  return place.dir.write("documents.jsonl", lines);
}

/// How many replicas and shards each stage of a live run has.
std::vector<std::pair<std::size_t, std::size_t>> widths_of(const std::string& run) {
  std::map<int, std::pair<std::set<int>, std::set<int>>> stages;
  const Json status = Json::parse(troupe({"status", run, "--json"}).out);
  for (const Json& rank : status.at("ranks")) {
    stages[rank.at("stage")].first.insert(rank.at("replica").get<int>());
    stages[rank.at("stage")].second.insert(rank.at("shard").get<int>());
  }
  std::vector<std::pair<std::size_t, std::size_t>> widths;
  for (const auto& [stage, seen] : stages)
    widths.emplace_back(seen.first.size(), seen.second.size());
  return widths;
}

}  // namespace

BOOST_AUTO_TEST_CASE(stages_of_any_width_train_as_one_process_does) {
  const Workplace place;
  const std::string documents = "[\"" + write_documents(place) + "\"]";
  std::map<Keys, Numbers> of_one;
  int number = 0;
  for (const auto& [name, keys, also] : layouts()) {
    Keys common = with({{"batch.micro", "1"}}, also);
    if (also.contains("batch.documents")) common["data.files"] = documents;
    if (also.contains("eval.interval")) common["eval.files"] = documents;
    const bool is_first = !of_one.contains(also);
    if (is_first) of_one[also] = trained(place, "one" + std::to_string(of_one.size()), common);
    const Numbers& one = of_one[also];
    const Keys all = with(common, keys);
    const std::string run = "wide" + std::to_string(number++);
    const Numbers numbers = trained(place, run, all);
    const double off = distance(numbers, one);
    BOOST_TEST(numbers.size() == one.size());
    BOOST_TEST(off < 2e-6, name << ": " << off);
    if (is_first)
      BOOST_TEST((trained(place, run + "-again", all) == numbers),
                 name << " is not the same again");
  }
}

BOOST_AUTO_TEST_CASE(tables_of_equal_widths_are_the_plain_mesh) {
  const Workplace place;
  const Numbers plain = trained(place, "plain", {{"mesh.pp", "2"}, {"mesh.dp", "2"}});
  BOOST_TEST((trained(place, "tables", stages(2, "{dp=2}, {dp=2}")) == plain));
}

BOOST_AUTO_TEST_CASE(layers_of_the_tables_are_the_layout) {
  const Workplace place;
  const Finished planned = troupe(
      {"plan", place.manifest("layers", stages(2, "{dp=2, layers=4}, {layers=2}")), "--json"});
  BOOST_REQUIRE_MESSAGE(planned.exit_code == 0, planned.err);
  const Json plan = Json::parse(planned.out);
  BOOST_TEST(plan.at("ranks").size() == 3u);
  BOOST_TEST(plan.at("manifest").at("mesh").at("layout") == "4,2");
}

BOOST_AUTO_TEST_CASE(one_stage_is_scaled_and_loses_workers) {
  std::mt19937_64 random(fresh_seed());
  const Workplace place;
  const Keys endless{{"run.max_steps", "100000000"}, {"batch.global", "64"}, {"batch.micro", "1"}};
  const auto shm = shared_memory();
  const std::string run = place.run("live");
  TroupeProgram program({"launch", place.manifest("live", with(endless, {{"mesh.pp", "2"}}))});
  BOOST_REQUIRE(program.read_until("step 3/"));
  const auto scale = [&](const char* stage, const char* option, const char* count) {
    const Finished scaled = troupe({"scale", run, "--stage", stage, option, count});
    BOOST_TEST(scaled.exit_code == 0, scaled.err);
  };
  using Widths = std::vector<std::pair<std::size_t, std::size_t>>;
  scale("1", "--dp", "2");
  BOOST_TEST((widths_of(run) == Widths{{1, 1}, {2, 1}}));
  for (int i = 0; i < 3; ++i) {  // whichever it is: the only one of its stage, or one of two
    const auto workers = workers_of(run);
    kill(workers.at(static_cast<std::size_t>(i) % workers.size()), SIGKILL);
    BOOST_REQUIRE(program.read_until("recovered"));
  }
  scale("0", "--tp", "2");
  BOOST_TEST((widths_of(run) == Widths{{1, 2}, {2, 1}}));
  const auto workers = workers_of(run);
  kill(workers.at(random() % workers.size()), SIGKILL);
  BOOST_REQUIRE(program.read_until("recovered"));
  scale("1", "--dp", "1");
  BOOST_TEST((widths_of(run) == Widths{{1, 2}, {1, 1}}));
  const Finished refused = troupe({"scale", run, "--stage", "2", "--dp", "2"});
  BOOST_TEST(refused.exit_code == 64);
  BOOST_TEST(refused.err.find("0 to 1") != std::string::npos, refused.err);
  BOOST_TEST(troupe({"stop", run}).exit_code == 0);
  BOOST_TEST(program.finish().exit_code == 0);
  wait_for_no_more_than(shm);
  const Numbers live = step_numbers(run);
  const int last = std::min(live.rbegin()->first, 60);
  const Numbers calm =
      trained(place, "calm", with(endless, {{"run.max_steps", std::to_string(last)}}));
  BOOST_TEST(distance(calm, live) < 1e-5, distance(calm, live));
}

/// Of a stage of one replica the state lies with another rank, and all go back with it; replicas
/// that divide theirs keep it for each other.
BOOST_AUTO_TEST_CASE(losses_of_workers_change_no_bit) {
  std::mt19937_64 random(fresh_seed());
  const Workplace place;
  const auto shm = shared_memory();
  const auto divided = [](const std::string& how) {
    return Keys{{"data_parallel.sharding", '"' + how + '"'}};
  };
  const std::map<std::string, Keys> runs{
      {"none", {}},
      {"optim", divided("optim")},
      {"optim_grads_params", divided("optim_grads_params")},
      {"seldom", {{"recovery.copy_interval", "3"}}},
      {"seldom-divided", with(divided("optim_grads_params"), {{"recovery.copy_interval", "3"}})}};
  for (const auto& [sharding, more] : runs) {
    const Keys keys =
        with(with(stages(2, "{dp=2}, {dp=1}"),
                  {{"run.max_steps", "100000000"}, {"batch.global", "64"}, {"batch.micro", "1"}}),
             more);
    const std::string name = "live-" + sharding, run = place.run(name);
    TroupeProgram program({"launch", place.manifest(name, keys)});
    BOOST_REQUIRE(program.read_until("step 2/"));
    for (int i = 0; i < 6; ++i) {
      const auto workers = workers_of(run);
      kill(workers.at(random() % workers.size()), SIGKILL);
      BOOST_REQUIRE(program.read_until("recovered"));
      BOOST_REQUIRE(program.read_until("step "));
    }
    BOOST_TEST(troupe({"stop", run}).exit_code == 0);
    BOOST_TEST(program.finish().exit_code == 0);
    const Numbers live = step_numbers(run);
    const int last = live.rbegin()->first;
    const Numbers calm =
        trained(place, "calm-" + sharding, with(keys, {{"run.max_steps", std::to_string(last)}}));
    for (const auto& [step, numbers] : live)
      BOOST_TEST((calm.at(step) == numbers), sharding << ": another loss at step " << step);
    const std::string saved = '"' + place.checkpoint(name, last) + '"';
    const std::string further = std::to_string(last + 4);
    const Numbers rest =
        trained(place, "rest-" + sharding,
                with(keys, {{"checkpoint.resume", saved}, {"run.max_steps", further}}));
    const Numbers whole =
        trained(place, "whole-" + sharding, with(keys, {{"run.max_steps", further}}));
    BOOST_TEST(rest.size() == 4u);
    for (const auto& [step, numbers] : rest)
      BOOST_TEST((whole.at(step) == numbers), sharding << ": resumed otherwise, step " << step);
  }
  wait_for_no_more_than(shm);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test
