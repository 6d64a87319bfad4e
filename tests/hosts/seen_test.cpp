#include <signal.h>

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "tests/hosts/hosts_runs.h"

// Tests what people see of a run over several hosts: by commands, metrics, a trace and a report.

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(seen_test)

namespace {

using nlohmann::json;
using Words = std::vector<std::string>;

/// Four stages, two on each of two hosts, whose monotonic clocks are 1000 s apart.
class SeenRun {
 public:
  SeenRun() {
    lab_.start_ssh();
    const Keys keys{{"mesh.pp", "4"},
                    {"run.max_steps", "100000"},
                    {"monitor.prometheus", "\"127.0.0.1:0\""},
                    {"monitor.web", "\"127.0.0.1:0\""}};
    program_.emplace(
        lab_, 0, launch_on_hosts(place_, place_.manifest("run", on_hosts(keys)), "h0:2\nh1:2\n"));
    BOOST_REQUIRE(program_->read_until("step 5/"));
  }

  Lab& lab() { return lab_; }
  std::string dir() const { return place_.run("run"); }
  Finished troupe(Words words) const {
    words.insert(words.begin(), binary_on_hosts());
    return lab_.run(0, words);
  }
  std::string said(const Words& words) const {
    const Finished done = troupe(words);
    BOOST_REQUIRE_MESSAGE(done.exit_code == 0, words.at(0) << ": " << done.out << done.err);
    return done.out;
  }
  /// The run's status once the clock of h1 is known.
  json status() const {
    json status;
    do {
      status = json::parse(said({"status", dir(), "--json"}));
    } while (!status.at("hosts").at(1).contains("clock"));  // the test's timeout bounds it
    return status;
  }
  /// What an address of the launcher's host answers.
  std::string fetched(const std::string& url) const {
    const Finished done = lab_.run(
        0, {"python3", "-c",
            "import sys, urllib.request as r; print(r.urlopen(sys.argv[1]).read().decode())", url});
    BOOST_REQUIRE_MESSAGE(done.exit_code == 0, done.err);
    return done.out;
  }
  void run_on() { read_new_steps(*program_, dir(), 5); }
  void stop() {
    said({"stop", dir()});
    BOOST_TEST(program_->finish().exit_code == 0);
  }

 private:
  Workplace place_;
  Lab lab_{2};
  std::optional<HostProgram> program_;
};

void check_has(const std::string& text, std::initializer_list<const char*> parts) {
  for (const char* part : parts)
    BOOST_TEST(text.find(part) != std::string::npos, part << " is not in\n" << text);
}

/// Bars of both hosts are beside each other, and no message comes before it has left, but for what
/// the clocks may be wrong.
void check_trace(const json& trace) {
  const json& clocks = trace.at("otherData");
  const double error_us = clocks.at("clock_error_us");
  const double ahead_us = clocks.at("clocks").at("h1").at("ahead_us");
  BOOST_TEST((error_us > 0 && error_us < 1e6));
  BOOST_TEST(std::abs(ahead_us - 1000e6) <= error_us);  // as the lab sets them
  std::map<std::string, double> left;
  int arrows = 0;
  for (const json& event : trace.at("traceEvents"))
    if (event.at("ph") == "s") left[event.at("id")] = event.at("ts");
  for (const json& event : trace.at("traceEvents")) {
    if (event.at("ph") == "X") BOOST_TEST(event.at("ts").get<double>() < 900e6);
    if (event.at("ph") != "f") continue;
    ++arrows;
    BOOST_TEST(event.at("ts").get<double>() > left.at(event.at("id")) - error_us);
  }
  BOOST_TEST(arrows > 0);
}

}  // namespace

BOOST_AUTO_TEST_CASE(hosts_are_seen_with_their_ranks_links_clocks_and_losses) {
  SeenRun run;
  const json status = run.status();
  BOOST_REQUIRE(status.at("hosts").size() == 2u);
  for (const json& host : status.at("hosts")) {
    const bool own = host.at("host") == "h0";
    BOOST_TEST((host.at("ranks") == (own ? json{0, 1} : json{2, 3})));
    BOOST_TEST((host.at("state") == "joined" && host.at("losses") == 0));
    BOOST_TEST((host.at("host_bytes") > 0 && host.at("network_bytes") > 0));
    BOOST_TEST(host.contains("clock") == !own);
  }
  check_has(run.said({"status", run.dir()}), {"host h0: joined, ", " within it by shm, ",
                                              " to others by tcp\n", "host h1: joined, "});
  const std::string hosts = run.said({"hosts", run.dir()});
  check_has(hosts, {"h1 ", "ranks 2, 3; clock known to "});
  BOOST_TEST(hosts.find("certificate") == std::string::npos, hosts);  // no stranger has come

  const json& urls = status.at("endpoints");
  check_has(run.fetched(urls.at("prometheus")),
            {"troupe_process_resident_memory_bytes{host=\"h1\",rank=\"3\"}",
             "troupe_host_ranks{host=\"h0\"} 2\n", "troupe_host_losses_total{host=\"h1\"} 0\n",
             "troupe_host_sent_bytes_total{host=\"h1\",link=\"tcp\"}"});
  const json page = json::parse(run.fetched(urls.at("web").get<std::string>() + "state"));
  check_has(page.at("parts").at("hosts").at("markup"), {"h0", "h1", "0-1", "2-3", "joined"});

  const std::string trace = run.dir() + "/trace.json";
  check_has(run.said({"trace", run.dir(), "--steps", "2", "-o", trace}), {"may be off by "});
  check_trace(json::parse(content_of(trace)));

  run.lab().cut(1);
  wait_for_event(run.dir(), "recovered", {{"from", "memory"}});
  const Finished diagnosis = run.troupe({"status", run.dir(), "--diagnose"});
  BOOST_TEST(diagnosis.exit_code == 1);
  check_has(diagnosis.out, {"host h1 is lost: nothing heard for 3 s"});
  check_has(run.said({"status", run.dir()}),
            {"host h1: lost, no ranks, lost 1 time; nothing heard"});
  run.run_on();
  run.stop();
  const json report = json::parse(run.said({"report", run.dir(), "--json"}));
  BOOST_REQUIRE(report.at("hosts").size() == 2u);
  BOOST_TEST(
      (report.at("hosts")[1].at("state") == "lost" && report.at("hosts")[1].at("losses") == 1));
  BOOST_TEST((report.at("hosts")[0].at("ranks") == json{0, 1}));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test
