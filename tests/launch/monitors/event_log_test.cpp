#include "launch/monitors/event_log.h"

#include <boost/test/unit_test.hpp>
#include <cmath>
#include <fstream>

#include "launch/control/event_json.h"
#include "tests/support/expect_error.h"
#include "tests/support/file_size_limit.h"
#include "tests/support/temp_dir.h"

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(event_log_test)

namespace {

using namespace actors;
using launch::EventLog;
using nlohmann::json;

std::vector<json> rows_of(const std::filesystem::path& path) {
  std::vector<json> rows;
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) rows.push_back(json::parse(line));
  return rows;
}

void no_complaint(const std::string& text) {
  BOOST_ERROR("complained: " << text);
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_recovery_is_a_line_with_its_phases) {
  const TempDir dir;
  const auto path = dir.path() / "events.jsonl";
  Hub hub;
  {
    const EventLog log(hub, path, no_complaint);
    hub.publish({.configuration = 2,
                 .step = 17,
                 .rank = 1,
                 .body = Recovered{.cause = "rank 1 was killed",
                                   .from = "memory",
                                   .phases = {.detect_s = 0.01, .first_step_s = 0.5},
                                   .stall_s = 0.75}});
  }
  const auto rows = rows_of(path);
  BOOST_REQUIRE(rows.size() == 1u);
  const json& row = rows[0];
  BOOST_TEST(row.at("kind") == "recovered");
  BOOST_TEST(row.at("configuration") == 2);
  BOOST_TEST(row.at("step") == 17);
  BOOST_TEST(row.at("rank") == 1);
  BOOST_TEST(row.at("cause") == "rank 1 was killed");
  BOOST_TEST(row.at("from") == "memory");
  BOOST_TEST(row.at("stall_s") == 0.75);
  BOOST_TEST(row.at("time").get<double>() > 1e9);
  const json& phases = row.at("phases");
  BOOST_TEST(phases.size() == 7u);
  for (const char* name :
       {"detect_s", "decide_s", "spawn_s", "move_s", "rebuild_s", "catch_up_s", "first_step_s"})
    BOOST_TEST(phases.at(name).is_number(), name);
  BOOST_TEST(phases.at("first_step_s") == 0.5);
}

BOOST_AUTO_TEST_CASE(steps_and_signs_of_life_are_not_kept) {
  const TempDir dir;
  const auto path = dir.path() / "events.jsonl";
  Hub hub;
  {
    const EventLog log(hub, path, no_complaint);
    hub.publish({.body = StepCommitted{}});
    hub.publish({.body = RankActivity{}});
    hub.publish({.body = ActionsTraced{}});
    hub.publish({.body = Note{.text = "not \xff UTF-8"}});
    hub.publish({.body = RunEnded{.outcome = {.exit_code = 75, .reason = "enough"}}});
  }
  const auto rows = rows_of(path);
  BOOST_REQUIRE(rows.size() == 2u);
  BOOST_TEST(rows[0].at("kind") == "note");
  BOOST_TEST(!rows[0].contains("rank"));
  BOOST_TEST(rows[1].at("exit_code") == 75);
}

/// A full disk costs whole lines: the lines before and after it are whole, and there is one
/// complaint.
BOOST_AUTO_TEST_CASE(a_full_disk_costs_lines_and_nothing_else) {
  const TempDir dir;
  const auto path = dir.path() / "events.jsonl";
  std::vector<std::string> complaints;
  {
    Hub hub;
    const FileSizeLimit full(1000);
    const EventLog log(hub, path, [&](const std::string& text) { complaints.push_back(text); });
    for (int i = 0; i < 50; ++i) hub.publish({.step = i, .body = Note{.text = "about 80 bytes"}});
  }
  const auto rows = rows_of(path);
  BOOST_TEST(rows.size() > 5u);
  BOOST_TEST(rows.size() < 50u);
  for (std::size_t i = 0; i < rows.size(); ++i) BOOST_TEST(rows[i].at("step") == i);
  BOOST_REQUIRE(complaints.size() == 1u);
  BOOST_TEST(complaints[0].find("events.jsonl") != std::string::npos);
  Hub hub;
  {
    const EventLog log(hub, path, no_complaint);
    hub.publish({.step = 99, .body = Note{}});
  }
  BOOST_TEST(rows_of(path).back().at("step") == 99);
}

BOOST_AUTO_TEST_CASE(a_loss_that_is_no_number_is_null_and_others_keep_their_digits) {
  const double loss = 5.5451774444795623;
  json row = launch::to_json(RunEvent{.body = StepCommitted{.report = {.loss = loss}}});
  BOOST_TEST(json::parse(row.dump()).at("loss").get<double>() == loss);
  row = launch::to_json(RunEvent{.body = StepCommitted{.report = {.loss = std::nan("")}}});
  BOOST_TEST(json::parse(row.dump()).at("loss").is_null());
}

BOOST_AUTO_TEST_CASE(kinds_are_chosen_by_name) {
  BOOST_TEST(launch::parse_kinds("").all());
  BOOST_TEST(launch::parse_kinds("step,failure") == (mask_of<StepCommitted, FailureDetected>()));
  expect_error(ErrorKind::usage, {"stp", "step"}, [] { launch::parse_kinds("stp"); });
  expect_error(ErrorKind::usage, {"''"}, [] { launch::parse_kinds("step,"); });
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test
