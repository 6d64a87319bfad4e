#include "launch/commands/schedule_on_paper.h"

#include <boost/test/unit_test.hpp>
#include <nlohmann/json.hpp>

#include "tests/support/expect_error.h"
#include "tests/support/temp_dir.h"

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(schedule_on_paper_test)

namespace {

using namespace launch;
using nlohmann::json;

ScheduleOptions asked(int stages, int microbatches) {
  ScheduleOptions options;
  options.stages = stages;
  options.microbatches = microbatches;
  return options;
}

void refused(ScheduleOptions options, const std::string& kind, std::vector<std::string> words,
             ErrorKind error = ErrorKind::usage) {
  expect_error(error, words, [&] { on_paper(options, kind); });
}

}  // namespace

BOOST_AUTO_TEST_CASE(figures_are_exact_decimals_in_the_unit_of_the_costs) {
  ScheduleOptions options = asked(8, 24);
  options.costs = "F=18.522,I=18.086,W=9.337,hop=0.601";
  BOOST_TEST(on_paper(options, "1f1b").simulation.wall == 1456.749);
  BOOST_TEST(on_paper(options, "zb-h1").simulation.span == 1310.405);
  options.chunks = 3;
  BOOST_TEST(on_paper(options, "interleaved").simulation.wall == 1237.531);
}

BOOST_AUTO_TEST_CASE(json_holds_what_scripts_read) {
  const json one = json::parse(to_json(on_paper(asked(3, 4), "1f1b")));
  BOOST_TEST(one["wall"] == 18.0);
  BOOST_TEST(one["span"] == 18.0);
  BOOST_TEST(one["bubble_rate"].get<double>() == 1 - 12.0 / 18);
  BOOST_TEST((one["idle"] == json{6.0, 6.0, 6.0}));
  BOOST_TEST(one["idle_causes"].size() == 3u);
  BOOST_TEST((one["peak_activations"] == json{3.0, 2.0, 1.0}));
  BOOST_TEST((one["actions"][2] == json{"2F0", "2B0", "2F1", "2B1", "2F2", "2B2", "2F3", "2B3"}));
  const json pairs = json::parse(to_json(on_paper(asked(2, 4), "dualpipe-v")));
  BOOST_TEST(pairs["actions"][0][7] == "(0F3;3B1)");
  BOOST_TEST((pairs["peak_activations"] == json{2.5, 2.5}));
}

BOOST_AUTO_TEST_CASE(costs_change_the_simulation) {
  ScheduleOptions options = asked(4, 8);
  options.costs = "F=1,I=1,W=1,optimizer=3";
  BOOST_TEST(on_paper(options, "zb-h2").simulation.step == 30);
  options.no_barrier = true;
  BOOST_TEST(on_paper(options, "zb-h2").simulation.step == 27);
  options.costs = "F=1,I=1,W=1,hop=1";
  const double overlapped = on_paper(options, "1f1b").simulation.wall;
  options.blocking_sends = true;
  BOOST_TEST(on_paper(options, "1f1b").simulation.wall > overlapped);
}

BOOST_AUTO_TEST_CASE(memory_and_groups_reach_the_generators) {
  ScheduleOptions options = asked(4, 12);
  const double tight = on_paper(options, "zb-1p").simulation.span;
  options.memory = 8;
  BOOST_TEST(on_paper(options, "zb-1p").simulation.span < tight);
  ScheduleOptions groups = asked(4, 10);
  groups.group_size = "5";
  BOOST_TEST(on_paper(groups, "interleaved").plan.actions[0][4].microbatch == 4);
  groups.group_size = "rounds";
  BOOST_TEST(on_paper(groups, "interleaved").plan.actions[0][5].chunk == 4);
}

BOOST_AUTO_TEST_CASE(impossible_arguments_are_refused) {
  refused(asked(4, 8), "", {"--kind is missing"});
  refused(asked(4, 8), "1f2b", {"1f2b", "did you mean '1f1b'", "'zb-v'"});
  refused(asked(0, 8), "1f1b", {"stages = 0"});
  ScheduleOptions without = asked(4, 8);
  without.stages.reset();
  refused(without, "1f1b", {"--stages is missing"});
  refused(asked(4, 7), "interleaved", {"7", "4", "is 8"});
  refused(asked(3, 12), "dualpipe", {"dualpipe", "stages = 3", "is 4"});
  ScheduleOptions options = asked(4, 8);
  options.costs = "F=1:2,I=1,W=1";
  refused(options, "1f1b", {"--costs", "2 stages", "4"});
  options.costs = "F=1";
  refused(options, "1f1b", {"--costs", "I is missing"});
  options = asked(4, 8);
  for (const char* size : {"0", "-1", "x", "4x"}) {
    options.group_size = size;
    refused(options, "interleaved", {"--group-size", size, "rounds"});
  }
}

BOOST_AUTO_TEST_CASE(a_comparison_lists_the_shortest_step_first) {
  ScheduleOptions options = asked(4, 8);
  options.chunks = 2;
  options.compare = {"1f1b", "zb-v", "interleaved", "dualpipe"};
  const Comparison found = compare(options);
  BOOST_REQUIRE(found.possible.size() == 4u);
  BOOST_TEST(found.possible[0].kind == "zb-v");
  BOOST_TEST(found.possible[3].kind == "1f1b");
  BOOST_TEST(found.possible[3].chunks == 1);
  const std::string table = to_table(found);
  BOOST_TEST(table.find("zb-v") < table.find("1f1b"));
  options.microbatches = 6;
  options.compare = {"1f1b", "interleaved"};
  const Comparison some = compare(options);
  BOOST_REQUIRE(some.impossible.size() == 1u);
  BOOST_TEST(to_table(some).find("interleaved is not possible: ") != std::string::npos);
  const json parsed = json::parse(to_json(some));
  BOOST_TEST(parsed["schedules"][0]["kind"] == "1f1b");
  BOOST_TEST(parsed["impossible"][0]["kind"] == "interleaved");
  options.compare = {"1f1b", "2f2b"};
  expect_error(ErrorKind::usage, {"2f2b"}, [&] { compare(options); });
}

BOOST_AUTO_TEST_CASE(a_plan_file_is_simulated_or_refused_at_its_line) {
  const TempDir dir;
  const auto kind = [&](const std::string& csv) { return "csv:" + dir.write("plan.csv", csv); };
  const ScheduleOnPaper plan = on_paper({}, kind("0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n"));
  BOOST_TEST(plan.simulation.wall == 9);
  BOOST_TEST(plan.chunks == 1);
  refused(asked(3, 2), kind("0F0,0B0\n1F0,1B0\n"), {"--stages 3", "has 2"});
  refused({}, kind("0F0,0B0\n1B0,1F0\n"), {"plan.csv:2:", "SCHED-5", "^^^"}, ErrorKind::data);
  refused({}, kind("0F0,0X0\n"), {"plan.csv:1:5:"}, ErrorKind::data);
  for (const std::string& path : {std::string("/nowhere/plan.csv"), dir.path().string()})
    refused({}, "csv:" + path, {"no such plan file", path.c_str()}, ErrorKind::data);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test
