#include <boost/test/unit_test.hpp>

#include "launch/commands/runs/collectives_command.h"

namespace troupe::launch {

BOOST_AUTO_TEST_SUITE(collective_verdict_test)

namespace {

using nlohmann::json;
using Lines = std::vector<std::string>;

json record(int rank, int sequence, bool is_finished, const std::vector<int>& missing = {}) {
  json line{{"rank", rank},         {"configuration", 2}, {"group", "replicas"},
            {"sequence", sequence}, {"dtype", "float32"}, {"operation", "all-reduce"},
            {"elements", 1000},     {"started", 1.5},     {"finished", nullptr},
            {"missing", missing}};
  if (is_finished) line["finished"] = 2.5;
  return line;
}

const std::string kUnfinished =
    "configuration 2, group \"replicas\": all-reduce of 1000 float32, number 7, did not end; "
    "called by ";

void expect(const CollectiveRecords& records, const Lines& expected) {
  BOOST_TEST(collective_verdict(records) == expected, boost::test_tools::per_element());
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_member_that_never_started_is_named) {
  expect({{0, {record(0, 6, true), record(0, 7, false, {2})}},
          {1, {record(1, 6, true), record(1, 7, false, {2})}},
          {2, {record(2, 6, true)}}},
         {kUnfinished + "ranks 0, 1", "  rank 2 never started it"});
}

BOOST_AUTO_TEST_CASE(a_member_without_records_is_named) {
  expect(
      {{0, {record(0, 7, false, {1})}}},
      {kUnfinished + "rank 0", "  rank 1 left no record: it never started it, or ended within it"});
}

BOOST_AUTO_TEST_CASE(a_member_that_called_another_collective_is_named) {
  json other = record(1, 7, true);
  other["operation"] = "broadcast";
  expect({{0, {record(0, 7, false, {1})}}, {1, {other}}},
         {kUnfinished + "rank 0", "  rank 1 called broadcast of 1000 float32 there"});
}

BOOST_AUTO_TEST_CASE(a_member_that_waits_as_well_is_not_at_fault) {
  expect({{0, {record(0, 7, false, {1, 2})}}, {1, {record(1, 7, false, {2})}}},
         {kUnfinished + "ranks 0, 1",
          "  rank 2 left no record: it never started it, or ended within it"});
}

BOOST_AUTO_TEST_CASE(the_first_unfinished_one_of_the_newest_configuration_counts) {
  json old = record(0, 3, false, {1});
  old["configuration"] = 1;
  expect(
      {{0, {old, record(0, 7, false, {1}), record(0, 8, false, {1})}}, {1, {record(1, 6, true)}}},
      {kUnfinished + "rank 0", "  rank 1 never started it"});
  expect({{0, {old, record(0, 7, true)}}}, {});
  expect({}, {});
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::launch
