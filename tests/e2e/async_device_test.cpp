// On a device whose ops run later, and whose memory the host cannot touch, launched runs have the
// losses of the CPU bit for bit: whatever the schedule, with shards and replicas, and after losses
// of workers and a change of stages (the other end-to-end tests run there too, as async.e2e.*). If
// the device fails, the run says so, and goes on without the process that has it.

#include <signal.h>

#include <boost/test/unit_test.hpp>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "tests/support/small_manifest.h"
#include "tests/support/troupe_program.h"

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(async_device_test)

namespace {

/// The numbers of the run on one of the devices.
std::map<int, StepNumbers> train_on(const char* device, const std::string& name, const Keys& keys) {
  const Workplace place;
  setenv("TROUPE_TEST_DEVICE", device, 1);
  const Finished done = troupe({"launch", place.manifest("run", keys)});
  unsetenv("TROUPE_TEST_DEVICE");
  BOOST_REQUIRE_MESSAGE(done.exit_code == 0, name << " on " << device << ": " << done.err);
  return step_numbers(place.run("run"));
}

/// What the whole model takes as one stage.
std::int64_t stage_bytes(const Workplace& place) {
  const Finished plan = troupe({"plan", place.manifest("whole"), "--json"});
  BOOST_REQUIRE_MESSAGE(plan.exit_code == 0, plan.err);
  return nlohmann::json::parse(plan.out).at("ranks").at(0).at("memory_bytes").at("total");
}

void check(const std::string& name, const Keys& keys) {
  const auto expected = train_on("cpu", name, keys);
  BOOST_TEST(!expected.empty(), name);
  BOOST_TEST((train_on("async", name, keys) == expected), name);
}

}  // namespace

BOOST_AUTO_TEST_CASE(schedules_have_the_losses_of_the_cpu) {
  for (const auto& [kind, chunks] :
       {std::pair{"1f1b", "1"}, {"interleaved", "2"}, {"zb-v", "2"}, {"dualpipe", "2"}})
    check(kind, {{"mesh.pp", "2"},
                 {"run.max_steps", "3"},
                 {"schedule.kind", '"' + std::string(kind) + '"'},
                 {"schedule.chunks", chunks}});
}

BOOST_AUTO_TEST_CASE(shards_and_replicas_have_the_losses_of_the_cpu) {
  check("shards", {{"mesh.tp", "2"}, {"run.max_steps", "3"}});
  check("replicas", {{"mesh.dp", "2"}, {"run.max_steps", "3"}});
  check("all", {{"mesh.pp", "2"},
                {"mesh.tp", "2"},
                {"run.max_steps", "3"},
                {"model.tie_word_embeddings", "true"}});
}

// The other rank waits for what the failed one never sends; the failed one, for an answer to it.
BOOST_AUTO_TEST_CASE(a_device_that_fails_is_told_and_its_worker_replaced) {
  for (const char* axis : {"mesh.pp", "mesh.tp", "mesh.dp"}) {
    const Keys keys{{axis, "2"}};
    const auto expected = train_on("async", axis, keys);
    const Workplace place;
    const std::string fault = place.dir.write("fault", "3000");
    setenv("TROUPE_TEST_DEVICE", "async", 1);
    setenv("TROUPE_ASYNC_FAULT", fault.c_str(), 1);
    const Finished done = troupe({"launch", place.manifest("run", keys)});
    unsetenv("TROUPE_ASYNC_FAULT");
    unsetenv("TROUPE_TEST_DEVICE");
    BOOST_TEST(!std::filesystem::exists(fault), axis << ": no device came to the op that fails");
    BOOST_REQUIRE_MESSAGE(done.exit_code == 0, axis << ": " << done.err);
    BOOST_TEST(done.out.find("): the asynchronous device failed in op 3000") != std::string::npos,
               axis << ": " << done.out);
    BOOST_TEST(done.out.find("recovered at step") != std::string::npos, axis << ": " << done.out);
    BOOST_TEST((step_numbers(place.run("run")) == expected), axis);
  }
}

// The other rank has left the second op behind by then, so that it is the new worker's. Of the
// other GPUs the last one has the most memory free.
BOOST_AUTO_TEST_CASE(a_gpu_that_has_failed_twice_is_not_used_again) {
  const Workplace place;
  const std::string run = place.run("run");
  const std::string faults = place.dir.write("fault", "3000 1000");
  setenv("TROUPE_TEST_DEVICE", "async", 1);
  setenv("TROUPE_ASYNC_FAULT", faults.c_str(), 1);
  TroupeProgram program(
      {"launch", place.manifest("run", {{"mesh.pp", "2"}, {"run.max_steps", "1000000"}})});
  unsetenv("TROUPE_ASYNC_FAULT");
  unsetenv("TROUPE_TEST_DEVICE");
  BOOST_REQUIRE(program.read_until("this GPU has failed twice and is not used again"));
  BOOST_REQUIRE(program.read_until("recovered at step"));
  const Finished status = troupe({"status", run, "--json"});
  BOOST_REQUIRE_MESSAGE(status.exit_code == 0, status.err);
  const auto told = nlohmann::json::parse(status.out);
  std::set<std::string> gpus;
  for (const auto& rank : told.at("ranks"))
    gpus.insert(rank.at("gpu").at("uuid"));
  const bool is_left = gpus == std::set<std::string>{"GPU-0", "GPU-7"} ||
                       gpus == std::set<std::string>{"GPU-1", "GPU-7"};
  BOOST_TEST(is_left, status.out);
  BOOST_TEST(troupe({"stop", run}).exit_code == 0);
  BOOST_TEST(program.finish().exit_code == 0);
  const auto got = step_numbers(run);
  BOOST_TEST((
      got == train_on("cpu", "run",
                      {{"mesh.pp", "2"}, {"run.max_steps", std::to_string(got.rbegin()->first)}})));
}

// Each device has room for the largest stage, and not for another one beside it. A worker dies
// among the changes.
BOOST_AUTO_TEST_CASE(a_full_device_changes_its_stage) {
  const Keys endless{{"mesh.pp", "2"}, {"run.max_steps", "1000000"}};
  const Workplace place;
  const std::string run = place.run("full");
  const std::string memory = std::to_string(stage_bytes(place) * 5 / 4);
  setenv("TROUPE_TEST_DEVICE", "async", 1);
  setenv("TROUPE_ASYNC_MEMORY", memory.c_str(), 1);
  TroupeProgram program({"launch", place.manifest("full", endless)});
  unsetenv("TROUPE_ASYNC_MEMORY");
  unsetenv("TROUPE_TEST_DEVICE");
  BOOST_REQUIRE(program.read_until("step 3/"));
  for (const char* pp : {"1", "3", "1", "2"}) {
    const Finished scaled = troupe({"scale", run, "--pp", pp});
    BOOST_REQUIRE_MESSAGE(scaled.exit_code == 0, "pp " << pp << ": " << scaled.err);
    BOOST_REQUIRE(program.read_until("step "));
  }
  const auto workers = workers_of(run);
  BOOST_REQUIRE(!workers.empty());
  kill(workers.back(), SIGKILL);
  BOOST_REQUIRE(program.read_until("recovered at step"));
  BOOST_TEST(troupe({"stop", run}).exit_code == 0);
  const Finished done = program.finish();
  BOOST_TEST(done.exit_code == 0, done.err);
  BOOST_TEST(content_of(run + "/logs/rank-0/output").find("no room for two stages on the device") !=
             std::string::npos);
  const auto got = step_numbers(run);
  const auto expected = train_on(
      "cpu", "full", {{"mesh.pp", "2"}, {"run.max_steps", std::to_string(got.rbegin()->first)}});
  BOOST_TEST((got == expected));
}

BOOST_AUTO_TEST_CASE(a_checkpoint_writes_the_texts_of_the_cpu) {
  const Workplace place;
  BOOST_REQUIRE(troupe({"launch", place.manifest("run")}).exit_code == 0);
  const auto texts = [&](const char* test_device) {
    setenv("TROUPE_TEST_DEVICE", test_device, 1);
    const Finished done = troupe({"generate", place.checkpoint("run", 6), "--prompt-file",
                                  place.dir.write("prompts.txt", "the \nab cd ef\nx\n"), "--tokens",
                                  "20", "--threads", "1", "--top-k", "30", "--json"});
    unsetenv("TROUPE_TEST_DEVICE");
    BOOST_REQUIRE_MESSAGE(done.exit_code == 0, done.err);
    return nlohmann::json::parse(done.out).at("outputs");
  };
  BOOST_TEST((texts("async") == texts("cpu")));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test
