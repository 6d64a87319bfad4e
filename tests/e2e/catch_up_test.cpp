#include <sched.h>
#include <signal.h>

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <sstream>

#include "tests/support/http_get.h"
#include "tests/support/small_manifest.h"
#include "tests/support/troupe_program.h"

// Tests what people are told while a run that went back to a checkpoint computes steps again.

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(catch_up_test)

namespace {

using nlohmann::json;

/// The newest event of a kind in a run's files; an empty object if there is none.
json event_of(const std::string& run, const std::string& kind) {
  json found = json::object();
  std::istringstream lines(content_of(run + "/events.jsonl"));
  for (std::string line; std::getline(lines, line);)
    if (json event = json::parse(line); event.at("kind") == kind) found = std::move(event);
  return found;
}

/// The status of a run whose workers stand still, once it tells a step's own loss.
json settled_status(const std::string& run, const std::map<int, StepNumbers>& steps) {
  while (true) {
    json status = status_of(run);
    const auto step = steps.find(status.at("step").get<int>());
    if (step != steps.end() && status.at("loss") == step->second.loss) return status;
    sched_yield();
  }
}

double seconds_of(const json& report, const std::string& part) {
  for (const json& row : report.at("time"))
    if (row.at("name") == part) return row.at("seconds");
  return -1;
}

/// The worker of rank 1 dies many steps after the only checkpoint, and its state with it. While the
/// run catches up the other worker is stopped, so that there is time to look.
struct Caught {
  Workplace place;
  std::string run = place.run("run");
  TroupeProgram program{{"launch", place.manifest("run", {{"mesh.pp", "2"},
                                                          {"run.max_steps", "1000000"},
                                                          {"recovery.neighbour_copies", "false"},
                                                          {"recovery.on_failure", "\"shrink\""},
                                                          {"recovery.silent", "0"},
                                                          {"recovery.hang", "0"},
                                                          {"monitor.web", "\"127.0.0.1:0\""}})}};
  pid_t survivor = 0;

  Caught() {
    BOOST_REQUIRE(program.read_until("step 3/"));
    BOOST_REQUIRE(troupe({"checkpoint", run}).exit_code == 0);
    read_new_steps(program, run, 300);
    const auto workers = workers_of(run);
    BOOST_REQUIRE(workers.size() == 2u);
    survivor = workers[0];
    kill(workers[1], SIGKILL);
    BOOST_REQUIRE(program.read_until("catching up  step "));
    kill(survivor, SIGSTOP);
  }
};

}  // namespace

BOOST_AUTO_TEST_CASE(the_way_back_is_told_everywhere_with_how_far_it_is) {
  Caught caught;
  const json back = event_of(caught.run, "went_back");
  const int back_to = back.at("back_to"), reached = back.at("reached");
  BOOST_TEST(reached >= back_to + 300);
  BOOST_TEST(back.at("from") == "checkpoint");
  const std::string sentence = "goes back to step " + std::to_string(back_to) + ", " +
                               std::to_string(reached - back_to) + " steps to compute again";
  BOOST_TEST(back.at("cause") == sentence);
  BOOST_TEST(caught.program.shown().find(sentence) != std::string::npos, caught.program.shown());

  // Step, loss and progress are of one moment.
  const json status = settled_status(caught.run, step_numbers(caught.run));
  BOOST_TEST(status.at("state") == "catching up");
  const int step = status.at("step");
  BOOST_TEST(step < reached);
  const json progress{{"what", "catching up"},
                      {"done", step - back_to},
                      {"of", reached - back_to},
                      {"unit", "steps"}};
  BOOST_TEST((status.at("progress").at(0) == progress), status.dump());
  const std::string page = get_until(
      status.at("endpoints").at("web").get<std::string>() + "state",
      std::to_string(step - back_to) + " of " + std::to_string(reached - back_to) + " steps");
  BOOST_TEST(page.find("run: catching up") != std::string::npos, page);

  // An order on the way is a change of its own, and the recovery stays what it is.
  TroupeProgram order({"scale", caught.run, "--schedule", "gpipe"});
  kill(caught.survivor, SIGCONT);
  const Finished changed = order.finish();
  BOOST_TEST(changed.exit_code == 0, changed.err);
  BOOST_TEST(changed.out.find(" from memory: ") != std::string::npos, changed.out);
  while (event_of(caught.run, "recovered").empty())
    BOOST_REQUIRE(caught.program.read_until("step "));
  const json recovered = event_of(caught.run, "recovered");
  BOOST_TEST(recovered.at("from") == "checkpoint");
  BOOST_TEST(recovered.at("cause").get<std::string>().find("SIGKILL") != std::string::npos);
  BOOST_TEST(recovered.at("phases").at("catch_up_s").get<double>() > 0);
  BOOST_TEST(recovered.at("step") == reached + 1);

  // Whoever looks at the page is told of the end before its server goes.
  const std::string state =
      status_of(caught.run).at("endpoints").at("web").get<std::string>() + "state?reader=me";
  BOOST_TEST(http_get(state).find(R"("ended":false)") != std::string::npos);
  caught.program.signal(SIGTERM);
  std::string last;
  do last = http_get(state);
  while (last.find(R"("ended":true)") == std::string::npos);
  BOOST_TEST(last.find("stopped by SIGTERM") != std::string::npos, last);
  BOOST_TEST(caught.program.finish().exit_code == 0);
  const Finished reported = troupe({"report", caught.run, "--json"});
  const json report = json::parse(reported.out);
  BOOST_TEST(seconds_of(report, "recoveries") == recovered.at("stall_s").get<double>(),
             boost::test_tools::tolerance(1e-9));
  // The steps that were computed again stay in the shape in which they were computed first.
  BOOST_TEST(report.at("shapes").at(0).at("pp") == 2);
  BOOST_TEST(report.at("shapes").at(1).at("pp") == 1);
  BOOST_TEST(report.at("shapes").at(1).at("after_step").get<int>() >= reached);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test
