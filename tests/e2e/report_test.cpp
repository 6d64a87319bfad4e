#include <signal.h>

#include <boost/test/unit_test.hpp>
#include <fstream>

#include "tests/support/small_manifest.h"
#include "tests/support/troupe_program.h"
#include "tests/support/xml.h"

// Reports of runs that lose workers, are scaled, stopped and resumed.

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(report_test)

namespace {

namespace fs = std::filesystem;
using nlohmann::json;

json report_of(const std::string& run) {
  const Finished program = troupe({"report", run, "--json"});
  BOOST_REQUIRE_MESSAGE(program.exit_code == 0, program.err);
  return json::parse(program.out);
}

json first_of(const json& report, const std::string& kind) {
  for (const json& event : report.at("events"))
    if (event.at("kind") == kind) return event;
  BOOST_REQUIRE_MESSAGE(false, "no event " << kind << " in " << report.at("events").dump(1));
  return {};
}

/// Checks that a recovery or change has its phases, which add up to its stall.
void check_phases(const json& event) {
  BOOST_TEST(event.at("time").get<double>() > 1e9);
  double sum = 0;
  for (const json& phase : event.at("phases")) sum += phase.at("seconds").get<double>();
  BOOST_TEST(event.at("phases").size() == 7u);
  BOOST_TEST(event.at("stall_s").get<double>() > 0);
  BOOST_TEST(sum == event.at("stall_s").get<double>(), boost::test_tools::tolerance(1e-3));
}

std::string page_of(const std::string& run) {
  const Finished program = troupe({"report", run});
  BOOST_REQUIRE_MESSAGE(program.exit_code == 0, program.err);
  BOOST_TEST(program.out == run + "/report.html\n");
  return content_of(run + "/report.html");
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_report_tells_what_happened_to_a_run_live_and_ended) {
  const Workplace place;
  const std::string corpus = "[\"" + (place.dir / "corpus.txt").string() + "\"]";
  const std::string run = place.run("hard");
  TroupeProgram program({"launch", place.manifest("hard", {{"run.max_steps", "1000000"},
                                                           {"mesh.pp", "3"},
                                                           {"checkpoint.interval", "10"},
                                                           {"eval.interval", "10"},
                                                           {"eval.steps", "1"},
                                                           {"eval.files", corpus}})});
  BOOST_REQUIRE(program.read_until("step 12/"));
  const json young = report_of(run);
  BOOST_TEST(young.at("state") == "running");
  BOOST_TEST(!young.contains("ending"));
  BOOST_TEST(young.at("step") >= 11);
  parse_xml(page_of(run));

  const auto workers = workers_of(run);
  BOOST_REQUIRE(workers.size() == 3u);
  kill(workers[1], SIGKILL);
  BOOST_REQUIRE(program.read_until("recovered"));
  read_new_steps(program, run, 20);
  BOOST_REQUIRE(troupe({"scale", run, "--pp", "2"}).exit_code == 0);
  read_new_steps(program, run, 20);
  BOOST_REQUIRE(troupe({"stop", run}).exit_code == 0);
  BOOST_TEST(program.finish().exit_code == 0);

  const json report = report_of(run);
  BOOST_TEST(report.at("state") == "ended");
  BOOST_TEST(report.at("ending").at("exit_code") == 0);
  const json failure = first_of(report, "failure"), recovered = first_of(report, "recovered");
  BOOST_TEST(failure.at("text").get<std::string>().find("SIGKILL") != std::string::npos);
  BOOST_TEST(failure.at("time") <= recovered.at("time"));
  check_phases(recovered);
  check_phases(first_of(report, "rescaled"));
  BOOST_TEST(report.at("shapes").front().at("pp") == 3);
  BOOST_TEST(report.at("shapes").back().at("pp") == 2);
  BOOST_TEST(report.at("curves").at("loss").size() == step_numbers(run).size());
  BOOST_TEST(report.at("curves").at("eval_loss").size() >= 4u);
  const json saved = report.at("checkpoints").back();
  BOOST_TEST(saved.at("step") == report.at("step"));
  BOOST_TEST(saved.at("bytes") > 10000);
  BOOST_TEST(saved.at("duration_s") > 0);
  BOOST_TEST(report.at("machine").at("cores") >= 1);
  // The measured step is of the new shape, and follows its schedule.
  const json& step = report.at("measured_step");
  BOOST_TEST(step.at("step") > first_of(report, "rescaled").at("step"));
  BOOST_REQUIRE(step.at("measured").size() == 2u);
  BOOST_TEST(step.at("measured").at(0).at("actions").size() == 16u);  // F and B of 8 microbatches
  BOOST_TEST(step.at("predicted").size() == 2u);
  BOOST_TEST(step.at("predicted_s") > 0);

  const std::string page = page_of(run);
  const auto tree = parse_xml(page);
  BOOST_TEST(attributes_of(tree, "path", "class").contains("smooth s0"));
  BOOST_TEST(attributes_of(tree, "path", "class").contains("mark cross"));
  BOOST_TEST(attributes_of(tree, "rect", "fill").count("url(#opB)") >= 32u);
  for (const char* text :
       {"What happened", "SIGKILL", "--pp 2", "first step", "mesh.pp", "troupe launch"})
    BOOST_TEST(page.find(text) != std::string::npos, text);
}

BOOST_AUTO_TEST_CASE(a_resumed_run_is_one_run_in_its_report) {
  const Workplace place;
  const std::string run = place.run("run");
  BOOST_REQUIRE(troupe({"launch", place.manifest("run")}).exit_code == 0);
  BOOST_REQUIRE(troupe({"launch", "--resume", run, "--set", "run.max_steps=9"}).exit_code == 0);
  const json report = report_of(run);
  BOOST_TEST(report.at("step") == 9);
  BOOST_TEST(report.at("curves").at("loss").size() == 9u);
  BOOST_TEST(first_of(report, "launch").at("text") == "resumed after step 6");
  BOOST_TEST(report.at("measured_step").at("step") <= 9);
}

BOOST_AUTO_TEST_CASE(reports_compare_runs) {
  const Workplace place;
  BOOST_REQUIRE(troupe({"launch", place.manifest("a")}).exit_code == 0);
  BOOST_REQUIRE(troupe({"launch", place.manifest("b", {{"optimizer.lr", "0.002"}})}).exit_code ==
                0);
  const std::string both = (place.dir / "both.html").string();
  const Finished done = troupe({"report", place.run("a"), place.run("b"), "-o", both});
  BOOST_TEST(done.exit_code == 0, done.err);
  const auto looks = attributes_of(parse_xml(content_of(both)), "path", "class");
  BOOST_TEST(looks.contains("smooth s0"));
  BOOST_TEST(looks.contains("smooth s1"));
  const json data = json::parse(troupe({"report", place.run("a"), place.run("b"), "--json"}).out);
  BOOST_TEST(data.at("runs").size() == 2u);
  BOOST_TEST(data.at("differences") ==
             json::parse(R"([{"key":"optimizer.lr","values":["0.001","0.002"]}])"));
}

BOOST_AUTO_TEST_CASE(what_cannot_be_reported_or_written_is_refused) {
  const Workplace place;
  const std::string run = place.run("run");
  BOOST_REQUIRE(troupe({"launch", place.manifest("run")}).exit_code == 0);
  const auto refused = [](const std::vector<std::string>& words, int code, const std::string& why) {
    const Finished program = troupe(words);
    BOOST_TEST(program.exit_code == code, words.back());
    BOOST_TEST(program.err.find(why) != std::string::npos, program.err);
  };
  const std::string manifest = run + "/manifest.toml", before = content_of(manifest);
  refused({"report"}, 64, "runs");
  refused({"report", run, run}, 64, "-o FILE.html");
  refused({"report", run, "-o", manifest}, 64, "manifest.html");
  refused({"report", run, "-o", "a.html", "--json"}, 64, "excludes");
  refused({"report", place.run("none")}, 65, "is not a run directory");
  refused({"report", run, "-o", (place.dir / "none/a.html").string()}, 65, "No such file");
  BOOST_TEST(content_of(manifest) == before);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test
