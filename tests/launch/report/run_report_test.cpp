#include "launch/report/run_report.h"

#include <boost/test/unit_test.hpp>

#include "launch/report/run_page.h"
#include "tests/launch/manifest_text.h"
#include "tests/support/expect_error.h"
#include "tests/support/temp_dir.h"
#include "tests/support/xml.h"

// Reports of directories that runs could have left.

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(run_report_test)

namespace {

namespace fs = std::filesystem;
using launch::read_report;
using launch::RunReport;
using nlohmann::json;

constexpr double kNow = 1.8e9;

/// A run directory with some steps, whose launcher was killed while it wrote a line.
fs::path torn_run(const TempDir& dir, const std::string& name,
                  const std::vector<std::string>& overrides = {}) {
  const fs::path run = dir / name;
  fs::create_directories(run / "checkpoints");
  std::vector<std::string> all{"run.name=" + name, "run.dir=" + run.string()};
  all.insert(all.end(), overrides.begin(), overrides.end());
  write_file(run / "manifest.toml", checked(kSmallManifest, all).to_toml());
  std::string lines;
  for (int step = 1; step <= 3; ++step)
    lines += R"({"step":)" + std::to_string(step) + R"(,"loss":)" + std::to_string(6 - step) +
             R"(,"grad_norm":1,"lr":0.1,"tokens":100,"step_s":0.5,"stages":[{"replica":0,)" +
             R"("stage":0,"shard":0,"busy_s":0.25,"idle_s":0.125,"collective_s":0}]})" + "\n";
  write_file(run / "metrics.jsonl", lines + R"({"step":4,"lo)");
  write_file(
      run / "events.jsonl",
      R"({"kind":"membership","configuration":1,"step":0,"time":1700000000,"pp":1,"dp":1,"tp":1})"
      "\n"
      R"({"kind":"failure","step":2,"time":1700000001,"rank":0,"cause":"<b>&\u0001"})"
      "\n"
      R"({"kind":"note","st)");
  return run;
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_run_whose_launcher_was_killed_is_reported) {
  const TempDir dir;
  const RunReport report = read_report(torn_run(dir, "torn") / "", kNow);
  BOOST_TEST(report.directory == (dir / "torn").string());
  BOOST_TEST(report.last_step() == 3);
  BOOST_TEST(!report.live);
  BOOST_REQUIRE(report.ending);
  BOOST_TEST(report.ending->outcome.exit_code == 70);
  BOOST_TEST(report.parameters > 0);
  BOOST_TEST(!report.step);
  BOOST_TEST(report.repeated_by() == "troupe launch " + (dir / "torn/manifest.toml").string() +
                                         " --set run.dir=" + (dir / "torn-again").string());

  const std::string page = launch::run_page(report, kNow);
  const auto tree = parse_xml(page);
  BOOST_TEST(page.find("&lt;b&gt;&amp;") != std::string::npos);
  BOOST_TEST(page.find("killed or crashed") != std::string::npos);
  BOOST_TEST(page.find("http://", page.find("http://www.w3.org") + 1) == std::string::npos);
  BOOST_TEST(page.find("<script") == std::string::npos);
  BOOST_TEST(attributes_of(tree, "path", "class").contains("smooth s0"));
}

BOOST_AUTO_TEST_CASE(what_is_shown_is_there_as_data) {
  const TempDir dir;
  const json data = launch::to_json(read_report(torn_run(dir, "torn"), kNow));
  BOOST_TEST(data.at("name") == "torn");
  BOOST_TEST(data.at("state") == "ended");
  BOOST_TEST(data.at("curves").at("loss") == json::parse("[[1,5],[2,4],[3,3]]"));
  BOOST_TEST(data.at("curves").at("tokens_per_s").at(0).at(1) == 200);
  BOOST_TEST(data.at("events").at(0).at("kind") == "failure");
  BOOST_TEST(data.at("events").at(0).at("rank") == 0);
  double shares = 0;
  for (const json& part : data.at("time")) shares += part.at("share").get<double>();
  BOOST_TEST(shares == 1, boost::test_tools::tolerance(1e-9));
}

BOOST_AUTO_TEST_CASE(a_run_on_several_hosts_has_a_table_of_them) {
  const TempDir dir;
  const fs::path run = torn_run(dir, "torn");
  BOOST_TEST(!launch::to_json(read_report(run, kNow)).contains("hosts"));
  std::string events, lines;
  for (const char* host : {"h0", "h1"})
    events +=
        json{{"kind", "host"}, {"host", host}, {"state", "joined"}, {"time", 1}}.dump() + "\n";
  const json ranks{{{"rank", 0}, {"stage", 0}, {"host", "h0"}},
                   {{"rank", 1}, {"stage", 1}, {"host", "h1"}}};
  events += json{{"kind", "membership"}, {"configuration", 1}, {"pp", 2}, {"ranks", ranks}}.dump() +
            "\n" +
            json{{"kind", "host"},
                 {"configuration", 1},
                 {"host", "h1"},
                 {"state", "lost"},
                 {"cause", "gone"}}
                .dump() +
            "\n";
  for (int step = 1; step <= 3; ++step) {
    json stages = json::array();
    for (int stage = 0; stage < 2; ++stage)
      stages.push_back({{"replica", 0},
                        {"stage", stage},
                        {"shard", 0},
                        {"busy_s", 1},
                        {"idle_s", 1},
                        {"network_bytes", 1000 * step},
                        {"host_bytes", stage}});
    lines +=
        json{{"step", step}, {"loss", 2}, {"step_s", 1}, {"tokens", 5}, {"stages", stages}}.dump() +
        "\n";
  }
  write_file(run / "events.jsonl", events);
  write_file(run / "metrics.jsonl", lines);
  const RunReport report = read_report(run, kNow);
  const json hosts = launch::to_json(report).at("hosts");
  BOOST_REQUIRE(hosts.size() == 2u);
  BOOST_TEST((hosts[1] == json{{"host", "h1"},
                               {"state", "lost"},
                               {"cause", "gone"},
                               {"losses", 1},
                               {"ranks", {1}},
                               {"host_bytes", 1},
                               {"network_bytes", 2500}}));  // of the last two steps
  const std::string page = launch::run_page(report, kNow);
  for (const char* part : {"Hosts", "h1", "gone", "2.4 KiB", "1 time"})
    BOOST_TEST(page.find(part) != std::string::npos, part);
  parse_xml(page);
}

BOOST_AUTO_TEST_CASE(settings_are_those_that_the_user_changed) {
  const launch::Manifest manifest =
      checked(kSmallManifest, {"optimizer.lr=0.002", "optimizer.clip=1.0"});
  std::map<std::string, launch::ChangedKey> changed;
  for (const auto& key : launch::changed_keys(manifest)) changed[key.key] = key;
  BOOST_TEST(changed.at("optimizer.lr").value == "0.002");
  BOOST_TEST(changed.at("optimizer.lr").fallback == "0.001");
  BOOST_TEST(!changed.contains("optimizer.clip"));  // its default
  BOOST_TEST(!changed.contains("model.head_dim"));  // derived
  BOOST_TEST(!changed.contains("run.derived"));
  BOOST_TEST(changed.at("run.name").fallback == "");  // else it is derived
}

BOOST_AUTO_TEST_CASE(runs_are_told_apart_by_what_differs) {
  const TempDir dir;
  std::vector<RunReport> runs;
  for (const char* rate : {"0.002", "0.004"})
    runs.push_back(read_report(
        torn_run(dir, std::string("rate-") + rate, {std::string("optimizer.lr=") + rate}), kNow));
  const auto different = launch::different_keys(runs);
  BOOST_REQUIRE(different.size() == 1u);
  BOOST_TEST(different[0].key == "optimizer.lr");
  BOOST_TEST((different[0].values == std::vector<std::string>{"0.002", "0.004"}));
  const std::string page = launch::comparison_page(runs, kNow);
  const auto looks = attributes_of(parse_xml(page), "path", "class");
  BOOST_TEST(looks.contains("smooth s0"));
  BOOST_TEST(looks.contains("smooth s1"));
  BOOST_TEST(page.find("rate-0.004") != std::string::npos);
  BOOST_TEST(launch::to_json(runs).at("differences").at(0).at("key") == "optimizer.lr");
  BOOST_TEST((launch::names_of(runs) == std::vector<std::string>{"rate-0.002", "rate-0.004"}));
  runs.push_back(runs.front());
  BOOST_TEST(launch::names_of(runs).front() == runs.front().directory);
}

BOOST_AUTO_TEST_CASE(the_command_that_repeats_a_run_is_quoted_for_a_shell) {
  const TempDir dir;
  const RunReport report = read_report(torn_run(dir, "it's mine"), kNow);
  BOOST_TEST(report.repeated_by().find("'" + dir.path().string() +
                                       "/it'\\''s mine/manifest.toml'") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(there_is_no_report_without_a_run_or_a_step) {
  const TempDir dir;
  expect_error(ErrorKind::data, {"is not a run directory", "manifest.toml"},
               [&] { read_report(dir.path(), kNow); });
  const fs::path run = torn_run(dir, "new");
  write_file(run / "metrics.jsonl", R"({"step":1,"lo)");
  expect_error(ErrorKind::data, {run.string(), "has no committed step", "killed or crashed"},
               [&] { read_report(run, kNow); });
  fs::remove(run / "metrics.jsonl");
  expect_error(ErrorKind::data, {"has no committed step"}, [&] { read_report(run, kNow); });
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test
