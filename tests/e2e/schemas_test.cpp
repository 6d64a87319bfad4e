#include <signal.h>

#include <boost/test/unit_test.hpp>
#include <cstdlib>
#include <filesystem>
#include <future>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "tests/support/python_program.h"
#include "tests/support/small_manifest.h"
#include "tests/support/trained_run.h"

// What runs and plans print is what launch/schemas says.

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(schemas_test)

namespace {

using nlohmann::json;

/// An interpreter with the package python3-jsonschema (tests/packages.txt).
std::string validator() {
  for (const std::string& candidate : {python(), std::string("/usr/bin/python3")})
    if (std::system((candidate + " -c 'import jsonschema' 2>/dev/null").c_str()) == 0)
      return candidate;
  BOOST_FAIL("no python3 has jsonschema: install python3-jsonschema");
  return "";
}

/// Checks each line against a schema.
void check_lines(const Workplace& place, const std::string& schema, const std::string& lines) {
  BOOST_TEST(!lines.empty());
  place.dir.write("lines.jsonl", lines);
  const std::string faults =
      output_of(validator() + " " TROUPE_SOURCE_FOLDER "/tests/support/validate_json.py " +
                TROUPE_SOURCE_FOLDER "/launch/schemas/" + schema + " " +
                (place.dir / "lines.jsonl").string());
  BOOST_TEST(faults == "", faults);
}

std::set<std::string> kinds_in(const std::string& lines) {
  std::set<std::string> kinds;
  std::istringstream in(lines);
  for (std::string line; std::getline(in, line);) kinds.insert(json::parse(line).at("kind"));
  return kinds;
}

const std::string kAllKinds =
    "step,evaluation,checkpoint,not_finite,membership,activity,director,actions,histograms,"
    "straggler,large_gradient,failure,phase,recovered,rescaled,attached,detached,note,ended";

}  // namespace

BOOST_AUTO_TEST_CASE(events_of_a_run_are_as_the_schema_says) {
  const Workplace place;
  const std::string corpus = "\"" + (place.dir / "corpus.txt").string() + "\"";
  const std::string dir = place.run("run");
  TroupeProgram run({"launch", place.manifest("run", {{"run.max_steps", "100000000"},
                                                      {"mesh.pp", "2"},
                                                      {"mesh.dp", "2"},
                                                      {"data.files", ""},
                                                      {"data.mix", "[{name = \"a\", files = [" +
                                                                       corpus + "], weight = 1}]"},
                                                      {"eval.files", "[" + corpus + "]"},
                                                      {"eval.interval", "2"},
                                                      {"eval.steps", "1"},
                                                      {"checkpoint.interval", "3"},
                                                      {"monitor.tensorboard", "true"},
                                                      {"monitor.histograms", "2"},
                                                      {"data_parallel.large_grad_norm", "1e-9"}})});
  BOOST_REQUIRE(run.read_until("step 1/"));
  auto reader = std::async(std::launch::async, output_of,
                           std::string(std::getenv("TROUPE_BINARY")) + " attach " + dir +
                               " --json --events " + kAllKinds);
  while (content_of(dir + "/events.jsonl").find("\"attached\"") == std::string::npos)
    BOOST_REQUIRE(!run.read_line().empty());
  const Finished tapped = troupe({"tap", dir, "--edge", "0:1", "--samples", "2"});
  BOOST_TEST(tapped.exit_code == 0, tapped.err);
  kill(workers_of(dir).at(0), SIGKILL);
  BOOST_REQUIRE(run.read_until("recovered at step"));
  read_new_steps(run, dir, 4);
  BOOST_TEST(troupe({"scale", dir, "--pp", "1"}).exit_code == 0);
  read_new_steps(run, dir, 4);
  run.signal(SIGTERM);
  BOOST_TEST(run.finish().exit_code == 0);
  const std::string events = reader.get();
  check_lines(place, "event.schema.json", events + tapped.out + content_of(dir + "/events.jsonl"));
  // A reader that is slower than the steps lacks some; the log of events lacks what each step
  // sends.
  const std::set<std::string> seen =
      kinds_in(events + tapped.out + content_of(dir + "/events.jsonl"));
  for (const char* kind : {"step", "evaluation", "checkpoint", "membership", "activity", "director",
                           "actions", "histograms", "tensor", "large_gradient", "failure", "phase",
                           "recovered", "rescaled", "attached", "detached", "ended"})
    BOOST_TEST(seen.contains(kind), "no event of the kind " << kind);
}

BOOST_AUTO_TEST_CASE(plans_are_as_the_schema_says) {
  const Workplace place;
  const std::vector<std::vector<std::string>> options{
      {},
      {"--set", "mesh.dp=2", "--set", "mesh.tp=2", "--bandwidth", "10", "--set",
       "data_parallel.sharding=optim_grads_params", "--set", "schedule.costs=F=1,I=1,W=1"},
      {"--set", "mesh.pp=4", "--hosts", "a:2,b:2"},
      {"--set", "recompute.mode=full", "--set", "model.kind=gpt2", "--set",
       "model.num_key_value_heads=4", "--set",
       "optimizer.group=[{match = \"*.c_attn.*\", weight_decay = 0.0}, {match = \"*wte*\", frozen "
       "= true}]"},
      {"--machine", "h100-sxm", "--set", "mesh.dp=2"},
      {"--machine", "h100-sxm", "--devices", "4", "--search"},
      // Some of these have no room.
      {"--machine", "l40s", "--devices", "2", "--search", "--set", "model.hidden_size=8192",
       "--set", "model.num_hidden_layers=16", "--set", "recovery.neighbour_copies=false"},
      {"--machine", "h100-sxm", "--inference", "--batch", "4", "--context", "64"}};
  std::string plans;
  for (const auto& more : options) {
    std::vector<std::string> words{"plan", place.manifest("plan"), "--json"};
    words.insert(words.end(), more.begin(), more.end());
    const Finished plan = troupe(words);
    BOOST_REQUIRE_MESSAGE(plan.exit_code == 0, plan.err);
    plans += json::parse(plan.out).dump() + "\n";
  }
  BOOST_TEST(plans.find("least_missing_bytes") != std::string::npos);
  // The plan of a run that has run has its steps beside them.
  trained(place, "run", {});
  const Finished plan =
      troupe({"plan", place.run("run") + "/manifest.toml", "--machine", "h100-sxm", "--json"});
  BOOST_REQUIRE_MESSAGE(plan.exit_code == 0, plan.err);
  const json measured = json::parse(plan.out);
  BOOST_TEST(measured.contains("measured"));
  plans += measured.dump() + "\n";
  check_lines(place, "plan.schema.json", plans);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test
