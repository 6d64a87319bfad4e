#include <signal.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/support/small_manifest.h"
#include "tests/support/troupe_program.h"

// Tests that runs which compute activations again have the bits of runs that keep them, and less
// memory, with real processes and real UCX.

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(recompute_test)

namespace {

using Numbers = std::map<int, StepNumbers>;

Keys with(Keys keys, const Keys& more) {
  for (const auto& [key, value] : more) keys[key] = value;
  return keys;
}

Keys mode(const std::string& name, const Keys& more = {}) {
  return with({{"recompute.mode", '"' + name + '"'}}, more);
}

Numbers trained_numbers(const Workplace& place, const std::string& name, const Keys& keys) {
  const Finished done = troupe({"launch", place.manifest(name, keys)});
  BOOST_REQUIRE_MESSAGE(done.exit_code == 0,
                        name << " ended with " << done.exit_code << ": " << done.err);
  return step_numbers(place.run(name));
}

/// Trains with each way, and without; the losses must be the same.
void check_same(const Keys& mesh, const std::vector<Keys>& ways) {
  const Workplace place;
  const Numbers kept = trained_numbers(place, "kept", mesh);
  BOOST_REQUIRE(kept.size() == 6u);
  int number = 0;
  for (const Keys& way : ways) {
    const std::string name = "again" + std::to_string(number++);
    const Numbers again = trained_numbers(place, name, with(mesh, way));
    for (const auto& [step, numbers] : kept)
      BOOST_TEST((again.at(step) == numbers), name << " differs at step " << step);
  }
}

nlohmann::json planned(const Workplace& place, const Keys& keys) {
  const Finished done = troupe({"plan", place.manifest("planned", keys), "--json"});
  BOOST_REQUIRE_MESSAGE(done.exit_code == 0, done.err);
  return nlohmann::json::parse(done.out);
}

std::int64_t activations_of(const nlohmann::json& plan) {
  std::int64_t bytes = 0;
  for (const auto& rank : plan.at("ranks"))
    bytes += rank.at("memory_bytes").at("activations").get<std::int64_t>();
  return bytes;
}

/// What processes have in memory now.
[[maybe_unused]] std::int64_t resident_bytes(const std::vector<pid_t>& processes) {
  std::int64_t pages = 0;
  for (const pid_t pid : processes) {
    std::ifstream statm("/proc/" + std::to_string(pid) + "/statm");
    std::int64_t size = 0, resident = 0;
    statm >> size >> resident;
    pages += resident;
  }
  return pages * sysconf(_SC_PAGESIZE);
}

const Keys kGroups = mode("full", {{"recompute.num_layers", "2"}});
const Keys kBlock = mode("full", {{"recompute.method", "\"block\""}});
const Keys kSomeKept = mode("full", {{"recompute.kept_microbatches", "1"}});

}  // namespace

BOOST_AUTO_TEST_CASE(each_mode_trains_with_the_same_bits) {
  check_same({{"mesh.pp", "2"}},
             {mode("selective"), mode("output"), mode("full"), kGroups, kBlock, kSomeKept});
}

BOOST_AUTO_TEST_CASE(late_weight_gradients_have_the_same_bits) {
  check_same({{"mesh.pp", "2"}, {"schedule.kind", "\"zb-h1\""}},
             {mode("selective"), mode("output"), kGroups});
}

BOOST_AUTO_TEST_CASE(pairs_have_the_same_bits) {
  check_same({{"mesh.pp", "2"}, {"schedule.kind", "\"combined-1f1b\""}, {"schedule.chunks", "2"}},
             {mode("selective"), mode("output"), kGroups});
}

BOOST_AUTO_TEST_CASE(shards_have_the_same_bits) {
  check_same({{"mesh.tp", "2"}, {"mesh.pp", "2"}},
             {mode("selective"), mode("output"), kGroups,
              mode("full", {{"recompute.distribute_saved_activations", "true"}})});
  check_same({{"mesh.tp", "2"}, {"mesh.pp", "2"}, {"mesh.sequence_parallel", "true"}},
             {mode("selective"), mode("output"), kGroups});
}

#ifndef __SANITIZE_ADDRESS__  // which keeps freed memory, and needs some beside every allocation
BOOST_AUTO_TEST_CASE(ranks_take_as_much_less_memory_as_the_plan_says) {
  const Workplace place;
  const Keys mesh{{"mesh.pp", "2"},
                  {"batch.seq_len", "512"},
                  {"batch.micro", "8"},
                  {"run.max_steps", "100000000"}};
  const auto resident = [&](const std::string& name, const Keys& keys) {
    TroupeProgram program({"launch", place.manifest(name, keys)});
    BOOST_REQUIRE(program.read_until("step 2/"));
    const std::int64_t bytes = resident_bytes(workers_of(place.run(name)));
    BOOST_TEST(troupe({"stop", place.run(name)}).exit_code == 0);
    BOOST_TEST(program.finish().exit_code == 0);
    return bytes;
  };
  const Keys full = with(mesh, mode("full"));
  const auto saved = planned(place, full).at("recompute_saved_bytes").get<std::int64_t>();
  BOOST_TEST(saved > 16 << 20);
  const std::int64_t measured = resident("kept", mesh) - resident("again", full);
  BOOST_TEST(std::abs(measured - saved) < saved / 4,
             measured << " measured, " << saved << " planned");
}
#endif

BOOST_AUTO_TEST_CASE(a_plan_shows_less_memory) {
  const Workplace place;
  const Keys mesh{{"mesh.pp", "2"}, {"batch.seq_len", "64"}};
  const std::int64_t kept = activations_of(planned(place, mesh));
  for (const Keys& way : {mode("selective"), mode("output"), mode("full"), kGroups, kSomeKept}) {
    const auto plan = planned(place, with(mesh, way));
    const auto saved = plan.at("recompute_saved_bytes").get<std::int64_t>();
    BOOST_TEST(saved > 0);
    BOOST_TEST(activations_of(plan) == kept - saved);
  }
}

BOOST_AUTO_TEST_CASE(a_loss_and_a_change_of_stages_keep_the_bits) {
  const Workplace place;
  const Keys endless{{"run.max_steps", "100000000"}, {"mesh.pp", "2"}};
  const std::string run = place.run("live");
  TroupeProgram program({"launch", place.manifest("live", with(endless, kGroups))});
  BOOST_REQUIRE(program.read_until("step 5/"));
  const auto workers = workers_of(run);
  BOOST_REQUIRE(workers.size() == 2u);
  kill(workers[1], SIGKILL);
  BOOST_REQUIRE(program.read_until("recovered"));
  const Finished scaled = troupe({"scale", run, "--pp", "3"});
  BOOST_TEST(scaled.exit_code == 0, scaled.err);
  BOOST_TEST(troupe({"stop", run}).exit_code == 0);
  BOOST_TEST(program.finish().exit_code == 0);
  const Numbers live = step_numbers(run);
  const Numbers calm = trained_numbers(
      place, "calm", {{"run.max_steps", std::to_string(std::min(live.rbegin()->first, 200))}});
  for (const auto& [step, numbers] : calm)
    BOOST_TEST((live.at(step) == numbers), "step " << step << " differs");
}

BOOST_AUTO_TEST_CASE(manifests_that_make_no_sense_are_refused) {
  const Workplace place;
  const auto check = [&](const Keys& keys, const char* words) {
    const Finished done = troupe({"plan", place.manifest("bad", keys)});
    BOOST_TEST(done.exit_code == 78);
    BOOST_TEST(done.err.find(words) != std::string::npos, done.err);
  };
  check({{"recompute.mode", "\"fulll\""}}, "full");
  check({{"recompute.mode", "\"full\""}, {"recompute.num_layers", "7"}}, "at most 6");
  check({{"recompute.num_layers", "2"}}, "recompute.mode = 'full'");
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test
