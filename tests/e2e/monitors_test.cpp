#include <sched.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <boost/test/unit_test.hpp>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <sstream>

#include "tests/support/http_get.h"
#include "tests/support/small_manifest.h"
#include "tests/support/troupe_program.h"

// Tests monitors of a real run: they come, leave, stop and die, and the run does not notice.

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(monitors_test)

namespace {

namespace fs = std::filesystem;
using nlohmann::json;

const Keys kLong{{"run.max_steps", "1000000"}, {"mesh.pp", "2"}, {"monitor.log_interval", "1"}};

/// Reads lines of an attached reader until one is a step with a loss.
json next_step(TroupeProgram& reader) {
  while (true) {
    const std::string line = reader.read_line();
    BOOST_REQUIRE(!line.empty());
    json event = json::parse(line);
    if (event.at("kind") == "step") return event;
  }
}

/// Checks a run's first steps against those of a run that nobody watches.
void check_undisturbed(const Workplace& place, const std::map<int, StepNumbers>& watched) {
  const int last = std::min(watched.rbegin()->first, 100);
  const Finished alone =
      troupe({"launch", place.manifest(
                            "alone", {{"run.max_steps", std::to_string(last)}, {"mesh.pp", "2"}})});
  BOOST_REQUIRE_MESSAGE(alone.exit_code == 0, alone.err);
  BOOST_TEST((until_step(last, watched) == step_numbers(place.run("alone"))));
}

/// The output of a program of the system; empty if it is not installed.
std::string output_of(const std::string& command) {
  std::string out;
  std::FILE* pipe = popen((command + " 2>/dev/null").c_str(), "r");
  std::array<char, 4096> bytes;
  for (std::size_t got; (got = std::fread(bytes.data(), 1, bytes.size(), pipe)) > 0;)
    out.append(bytes.data(), got);
  pclose(pipe);
  return out;
}

}  // namespace

BOOST_AUTO_TEST_CASE(readers_that_stop_die_or_leave_change_nothing) {
  const Workplace place;
  TroupeProgram run({"launch", place.manifest("watched", kLong)});
  BOOST_REQUIRE(run.read_until("step 2/"));
  TroupeProgram stopped({"attach", place.run("watched"), "--json"});
  TroupeProgram killed({"attach", place.run("watched"), "--json"});
  TroupeProgram leaving({"attach", place.run("watched"), "--json", "--events", "step"});
  next_step(stopped);
  stopped.signal(SIGSTOP);
  next_step(killed);
  killed.signal(SIGKILL);
  const json event = next_step(leaving);
  leaving.signal(SIGINT);
  BOOST_TEST(leaving.finish().exit_code == 0);
  read_new_steps(run, place.run("watched"), 20);
  run.signal(SIGTERM);
  const Finished done = run.finish();
  BOOST_TEST(done.exit_code == 0, done.err);
  stopped.signal(SIGCONT);
  const auto losses = step_numbers(place.run("watched"));
  check_undisturbed(place, losses);
  BOOST_TEST(event.at("loss").get<double>() == losses.at(event.at("step").get<int>()).loss);
  // The run's own record names the readers that came and went.
  std::set<std::string> kinds;
  std::istringstream lines(content_of(fs::path(place.run("watched")) / "events.jsonl"));
  for (std::string line; std::getline(lines, line);) kinds.insert(json::parse(line).at("kind"));
  for (const char* kind : {"membership", "attached", "detached", "ended"})
    BOOST_TEST(kinds.contains(kind), kind);
  BOOST_TEST(!kinds.contains("step"));

  const Finished late = troupe({"attach", place.run("watched"), "--json"});
  BOOST_TEST(late.exit_code == 69);
  const std::string last = "step " + std::to_string(losses.rbegin()->first);
  BOOST_TEST(late.err.find(last) != std::string::npos, late.err);
}

/// The reader stands still until its queue in the run has overflowed, and hears of the end alone.
BOOST_AUTO_TEST_CASE(a_reader_that_is_behind_is_told_the_end_of_the_run) {
  const Workplace place;
  TroupeProgram run({"launch", place.manifest("run", kLong)});
  BOOST_REQUIRE(run.read_until("step 2/"));
  TroupeProgram slow({"attach", place.run("run"), "--json"});
  next_step(slow);
  slow.signal(SIGSTOP);
  while (status_of(place.run("run")).at("monitors").at("dropped") == 0) sched_yield();
  run.signal(SIGTERM);
  const Finished done = run.finish();
  BOOST_TEST(done.exit_code == 0, done.err);
  slow.signal(SIGCONT);
  std::istringstream lines(slow.finish().out);
  std::vector<json> events;
  for (std::string line; std::getline(lines, line);) events.push_back(json::parse(line));
  const auto is_end = [](const json& event) { return event.at("kind") == "ended"; };
  BOOST_TEST(std::ranges::count_if(events, is_end) == 1);
  const json& last = events.back();
  BOOST_TEST_REQUIRE(is_end(last));
  BOOST_TEST(last.at("exit_code") == 0);
  BOOST_TEST(last.at("step") == step_numbers(place.run("run")).rbegin()->first);
  BOOST_TEST(last.at("time").get<double>() > 1e9);
}

BOOST_AUTO_TEST_CASE(a_status_tells_loss_speed_time_left_and_memory) {
  const Workplace place;
  TroupeProgram run({"launch", place.manifest("run", kLong)});
  BOOST_REQUIRE(run.read_until("step 3/"));
  json status;
  const auto told = [&] {
    status = status_of(place.run("run"));
    return std::ranges::all_of(
        status.at("ranks"), [](const json& rank) { return rank.at("resident_bytes") > 1 << 20; });
  };
  while (!told()) sched_yield();  // a rank reports its memory every half second
  std::uint64_t resident = 0;
  for (const json& rank : status.at("ranks"))
    resident += rank.at("resident_bytes").get<std::uint64_t>();
  BOOST_TEST(status.at("resident_bytes").get<std::uint64_t>() == resident);
  BOOST_TEST(status.at("tokens_per_s").get<double>() > 0);
  BOOST_TEST(status.at("time_left_s").get<double>() > 0);
  const double loss = status.at("loss");
  const Finished text = troupe({"status", place.run("run")});
  const std::regex line(
      R"(\nloss [0-9.]+  [0-9,]+ tokens/s  (\d+d )?\d+:\d\d:\d\d left  memory [0-9.]+ .iB\n)");
  BOOST_TEST(std::regex_search(text.out, line), text.out);
  run.signal(SIGTERM);
  BOOST_TEST(run.finish().exit_code == 0);
  const auto steps = step_numbers(place.run("run"));
  BOOST_TEST(
      std::ranges::any_of(steps, [&](const auto& step) { return step.second.loss == loss; }));
}

BOOST_AUTO_TEST_CASE(wrong_kinds_are_refused) {
  const Workplace place;
  const Finished wrong = troupe({"attach", place.run("none"), "--json", "--events", "stp"});
  BOOST_TEST(wrong.exit_code == 64);
  BOOST_TEST(wrong.err.find("'step'") != std::string::npos, wrong.err);
}

BOOST_AUTO_TEST_CASE(a_wrong_token_is_no_end_of_the_run) {
  const Workplace place;
  TroupeProgram run({"launch", place.manifest("run", kLong)});
  BOOST_REQUIRE(run.read_until("step 2/"));
  const fs::path control = fs::path(place.run("run")) / "control.json";
  json address = json::parse(content_of(control));
  address["token"] = std::string(32, '0');
  write_file(control, address.dump());
  const std::string dir = place.run("run");
  const std::vector<std::vector<std::string>> commands{
      {"attach", dir, "--json"},   {"status", dir},     {"status", dir, "--diagnose"},
      {"scale", dir, "--pp", "1"}, {"checkpoint", dir}, {"stop", dir}};
  for (const auto& command : commands) {
    const Finished refused = troupe(command);
    BOOST_TEST(refused.exit_code == 69);
    BOOST_TEST(refused.out.empty(), refused.out);
    BOOST_TEST(refused.err.find("control.json") != std::string::npos, refused.err);
  }
  read_new_steps(run, dir, 1);  // it goes on
  run.signal(SIGTERM);
  BOOST_TEST(run.finish().exit_code == 0);
}

BOOST_AUTO_TEST_CASE(a_tap_tells_of_one_edge_and_changes_no_loss) {
  const Workplace place;
  TroupeProgram run({"launch", place.manifest("tapped", kLong)});
  BOOST_REQUIRE(run.read_until("step 2/"));
  const Finished tap = troupe({"tap", place.run("tapped"), "--edge", "1:0", "--backward",
                               "--microbatch", "1", "--samples", "2", "--dump"});
  BOOST_TEST(tap.exit_code == 0, tap.err);
  std::istringstream lines(tap.out);
  int samples = 0;
  for (std::string line; std::getline(lines, line); ++samples) {
    const json event = json::parse(line);
    BOOST_TEST(event.at("rank") == 1);
    BOOST_TEST(event.at("microbatch") == 1);
    BOOST_TEST(event.at("norm").get<double>() > 0);
    BOOST_TEST(fs::exists(event.at("file").get<std::string>()));
  }
  BOOST_TEST(samples == 2);
  run.signal(SIGTERM);
  const Finished done = run.finish();
  BOOST_TEST(done.exit_code == 0, done.err);
  check_undisturbed(place, step_numbers(place.run("tapped")));
}

BOOST_AUTO_TEST_CASE(a_tap_takes_so_many_samples_in_all) {
  const Workplace place;
  TroupeProgram run({"launch", place.manifest("run", kLong)});
  BOOST_REQUIRE(run.read_until("step 2/"));
  // A step has 8 microbatches, so that the third step is the last one that is looked at.
  const Finished tap =
      troupe({"tap", place.run("run"), "--edge", "0:1", "--samples", "20", "--dump"});
  BOOST_TEST(tap.exit_code == 0, tap.err);
  BOOST_TEST(std::ranges::count(tap.out, '\n') == 20);
  BOOST_TEST(tap.err.find("20 activations of edge 0:1") != std::string::npos, tap.err);
  read_new_steps(run, place.run("run"), 2);
  const fs::path taps = fs::path(place.run("run")) / "taps";
  BOOST_TEST(std::distance(fs::directory_iterator(taps), {}) == 20);
  run.signal(SIGTERM);
  BOOST_TEST(run.finish().exit_code == 0);
}

BOOST_AUTO_TEST_CASE(a_tap_of_what_never_comes_is_refused_at_once) {
  const Workplace place;
  TroupeProgram run({"launch", place.manifest("run", kLong)});
  BOOST_REQUIRE(run.read_until("step 2/"));
  const auto refused = [&](std::vector<std::string> options, const std::string& why) {
    options.insert(options.begin(), {"tap", place.run("run")});
    const Finished tap = troupe(options);
    BOOST_TEST(tap.exit_code == 64);
    BOOST_TEST(tap.out == "");
    BOOST_TEST(tap.err.find(why) != std::string::npos, tap.err);
  };
  refused({"--edge", "0:7"},
          "no activations travel over edge 0:7; the edges of activations are 0:1");
  refused({"--edge", "0:1", "--backward"}, "the edges of gradients are 1:0");
  refused({"--edge", "0:1", "--microbatch", "99"}, "microbatches 0-7");
  refused({"--edge", "0:1", "--every", "1000001"}, "of 1000000");
  // A tap that waits for tensors which can no longer come ends.
  TroupeProgram gone({"tap", place.run("run"), "--edge", "0:1", "--not-finite"});
  const std::string attached = "tap of pid " + std::to_string(gone.pid());
  while (content_of(place.run("run") + "/events.jsonl").find(attached) == std::string::npos)
    sched_yield();
  BOOST_TEST(troupe({"scale", place.run("run"), "--pp", "1"}).exit_code == 0);
  const Finished ended = gone.finish();
  BOOST_TEST(ended.exit_code == 69);
  BOOST_TEST(ended.err.find("the tap ends at step") != std::string::npos, ended.err);
  BOOST_TEST(ended.err.find("pp 1 x dp 1") != std::string::npos, ended.err);
  run.signal(SIGTERM);
  BOOST_TEST(run.finish().exit_code == 0);
}

BOOST_AUTO_TEST_CASE(a_trace_has_a_track_for_each_rank) {
  const Workplace place;
  TroupeProgram run({"launch", place.manifest("run", kLong)});
  BOOST_REQUIRE(run.read_until("step 2/"));
  const std::string file = (place.dir / "trace.json").string();
  const Finished trace = troupe({"trace", place.run("run"), "--steps", "2", "-o", file});
  BOOST_TEST(trace.exit_code == 0, trace.err);
  std::map<int, std::set<int>> tracks;  // by rank
  std::set<std::int64_t> steps;
  int actions = 0, arrows = 0;
  const json content = json::parse(content_of(file));
  for (const json& event : content.at("traceEvents")) {
    if (event.at("ph") == "s" || event.at("ph") == "f") ++arrows;
    if (event.at("ph") != "X") continue;
    tracks[event.at("pid")].insert(event.at("tid").get<int>());
    steps.insert(event.at("args").at("step").get<std::int64_t>());
    if (event.at("cat") == "action") ++actions;
  }
  BOOST_TEST(tracks.size() == 2u);
  for (const auto& [rank, of_rank] : tracks)
    BOOST_TEST((of_rank.size() == 1 || (on_async_device() && of_rank.size() == 2)));
  BOOST_TEST(steps.size() == 2u);
  // There are 8 microbatches, forward and backward, in two ranks, for two steps; each crosses the
  // edge once.
  BOOST_TEST(actions == 2 * 2 * 8 * 2);
  BOOST_TEST(arrows == 2 * 2 * 8 * 2);
  run.signal(SIGTERM);
  BOOST_TEST(run.finish().exit_code == 0);
}

BOOST_AUTO_TEST_CASE(what_the_manifest_switches_on_is_served) {
  const Workplace place;
  Keys keys = kLong;
  keys["monitor.tensorboard"] = "true";
  keys["monitor.prometheus"] = "\"127.0.0.1:0\"";
  keys["monitor.web"] = "\"127.0.0.1:0\"";
  TroupeProgram run({"launch", place.manifest("run", keys)});
  BOOST_REQUIRE(run.read_until("step 5/"));
  const json endpoints = status_of(place.run("run")).at("endpoints");
  std::string metrics;
  do metrics = http_get(endpoints.at("prometheus"));
  while (metrics.find("troupe_train_tokens_total") == std::string::npos);
  BOOST_TEST(http_get(endpoints.at("web")).find("<html") != std::string::npos);
  const std::string page = endpoints.at("web"), scrape = endpoints.at("prometheus");
  BOOST_TEST(run.shown().find("page      " + page + "\n") != std::string::npos, run.shown());
  BOOST_TEST(run.shown().find("metrics   " + scrape + "\n") != std::string::npos, run.shown());
  BOOST_TEST(run.shown().find("\ncorpus    ") != std::string::npos, run.shown());
  const Finished healthy = troupe({"status", place.run("run"), "--diagnose"});
  BOOST_TEST(healthy.exit_code == 0, healthy.out);

  const auto workers = status_of(place.run("run")).at("ranks");
  kill(workers[0].at("pid").get<pid_t>(), SIGSTOP);
  const Finished sick = troupe({"status", place.run("run"), "--diagnose"});
  BOOST_TEST(sick.exit_code == 1);
  BOOST_TEST(sick.out.find("is stopped") != std::string::npos, sick.out);
  kill(workers[0].at("pid").get<pid_t>(), SIGCONT);
  run.signal(SIGTERM);
  BOOST_TEST(run.finish().exit_code == 0);
  std::size_t files = 0;
  for (const auto& entry : fs::directory_iterator(fs::path(place.run("run")) / "tensorboard"))
    if (entry.path().filename().string().starts_with("events.out.tfevents.")) {
      ++files;
      // A SessionLog of kind START.
      BOOST_TEST(content_of(entry.path()).find("\x3a\x02\x08\x01") != std::string::npos);
    }
  BOOST_TEST(files == 1u);
}

BOOST_AUTO_TEST_CASE(shipped_alert_rules_are_valid) {
  const std::string folder = TROUPE_SOURCE_FOLDER "/launch/monitors/dashboards";
  if (output_of("promtool --version").empty())
    BOOST_TEST_MESSAGE("promtool is not installed: the alert rules were not checked");
  else
    BOOST_TEST(output_of("promtool check config " + folder + "/prometheus.yml").find("SUCCESS") !=
               std::string::npos);
  BOOST_TEST(json::parse(content_of(folder + "/grafana.json")).at("panels").size() > 4u);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test
