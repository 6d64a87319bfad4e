#include <sched.h>
#include <signal.h>

#include <array>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <filesystem>
#include <future>
#include <nlohmann/json.hpp>
#include <set>

#include "tests/support/small_manifest.h"
#include "tests/support/troupe_program.h"

// Tests of `troupe checkpoint`: a run is saved when somebody asks for it, and goes on meanwhile.

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(ordered_saves_test)

namespace {

namespace fs = std::filesystem;

const Keys kLong{{"run.max_steps", "1000000"}, {"mesh.pp", "2"}};

std::string line_of(const Finished& done) {
  BOOST_REQUIRE_MESSAGE(done.exit_code == 0, done.err);
  return done.out.substr(0, done.out.find('\n'));
}

/// Paths of the checkpoints of the run, complete or not.
std::set<std::string> checkpoints_of(const Workplace& place) {
  std::set<std::string> paths;
  for (const auto& entry : fs::directory_iterator(place.run("run") + "/checkpoints"))
    if (entry.is_directory()) paths.insert(entry.path());
  return paths;
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_run_is_saved_on_order_and_goes_on) {
  const Workplace place;
  const std::string dir = place.run("run");
  TroupeProgram run({"launch", place.manifest("run", kLong)});
  BOOST_REQUIRE(run.read_until("step 2/"));
  const int before = step_numbers(dir).rbegin()->first;
  const auto told = nlohmann::json::parse(line_of(troupe({"checkpoint", dir, "--json"})));
  const int step = told.at("step");
  BOOST_TEST(step > before);
  const std::string first = place.checkpoint("run", step);
  BOOST_TEST(told.at("checkpoint") == first);
  BOOST_TEST((checkpoints_of(place) == std::set{first}));
  const std::string second = line_of(troupe({"checkpoint", dir}));
  BOOST_TEST(second != first);
  BOOST_TEST((checkpoints_of(place) == std::set{first, second}));
  read_new_steps(run, dir, 3);
  run.signal(SIGTERM);
  BOOST_TEST(run.finish().exit_code == 0);

  // Another run goes on from it as the first one did.
  const Keys from{{"run.max_steps", std::to_string(step + 3)},
                  {"checkpoint.resume", '"' + first + '"'}};
  const Finished resumed = troupe({"launch", place.manifest("fork", from)});
  BOOST_REQUIRE_MESSAGE(resumed.exit_code == 0, resumed.err);
  auto undisturbed = until_step(step + 3, step_numbers(dir));
  undisturbed.erase(undisturbed.begin(), undisturbed.upper_bound(step));
  BOOST_TEST((step_numbers(place.run("fork")) == undisturbed));
}

BOOST_AUTO_TEST_CASE(an_order_outlives_the_loss_of_a_worker) {
  const Workplace place;
  const std::string dir = place.run("run");
  TroupeProgram run({"launch", place.manifest("run", kLong)});
  BOOST_REQUIRE(run.read_until("step 2/"));
  // Nothing can be committed until the stopped worker is lost and replaced.
  const pid_t worker = workers_of(dir).at(1);
  kill(worker, SIGSTOP);
  TroupeProgram order({"checkpoint", dir});
  BOOST_REQUIRE(run.read_until("recovered"));
  const std::string path = line_of(order.finish());
  BOOST_TEST((checkpoints_of(place) == std::set{path}));
  run.signal(SIGTERM);
  BOOST_TEST(run.finish().exit_code == 0);
}

BOOST_AUTO_TEST_CASE(one_order_waits_for_a_step_and_a_second_one_is_refused) {
  const Workplace place;
  const std::string dir = place.run("run");
  Keys slow = kLong;
  slow["batch.global"] = "65536";  // for a long step
  TroupeProgram run({"launch", place.manifest("run", slow)});
  while (workers_of(dir).size() < 2) sched_yield();
  const auto order = [&] { return troupe({"checkpoint", dir}); };
  std::array orders{std::async(std::launch::async, order), std::async(std::launch::async, order)};
  const auto is_answered = [](const std::future<Finished>& one) {
    return one.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
  };
  while (!is_answered(orders[0]) && !is_answered(orders[1])) sched_yield();
  const std::size_t first = is_answered(orders[0]) ? 0 : 1;
  const Finished refused = orders[first].get();
  BOOST_TEST(refused.exit_code == 75, refused.err);
  BOOST_TEST(refused.err.find("has been ordered already") != std::string::npos, refused.err);
  run.signal(SIGTERM);
  run.signal(SIGINT);  // ends a run at once that is in a step
  run.finish();
  const Finished overtaken = orders[1 - first].get();
  BOOST_TEST(overtaken.exit_code == 69, overtaken.err);
  BOOST_TEST(overtaken.err.find("ended") != std::string::npos, overtaken.err);
}

BOOST_AUTO_TEST_CASE(a_run_that_has_ended_is_not_saved) {
  const Workplace place;
  BOOST_REQUIRE(troupe({"launch", place.manifest("run")}).exit_code == 0);
  const Finished late = troupe({"checkpoint", place.run("run")});
  BOOST_TEST(late.exit_code == 69);
  BOOST_TEST(late.err.find("nothing to save: run ") != std::string::npos, late.err);
  BOOST_TEST(late.err.find(place.checkpoint("run", 6)) != std::string::npos, late.err);
  BOOST_TEST(late.out.empty(), late.out);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test
