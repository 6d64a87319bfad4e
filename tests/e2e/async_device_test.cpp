// On a device whose ops run later, and whose memory the host cannot touch, launched runs have the
// losses of the CPU bit for bit: whatever the schedule, with shards and replicas, and after losses
// of workers and a change of stages (the other end-to-end tests run there too, as async.e2e.*). If
// the device fails, the run says so, and goes on without the process that has it.

#include <boost/test/unit_test.hpp>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

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
