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

BOOST_AUTO_TEST_CASE(a_member_that_gave_a_gather_another_number_is_not_at_fault) {
  json caller = record(0, 7, false, {1}), other = record(1, 7, true);
  caller["alike"] = other["alike"] = 1900;
  other["elements"] = 900;
  expect({{0, {caller}}, {1, {other}}}, {kUnfinished + "rank 0"});
}

BOOST_AUTO_TEST_CASE(the_first_difference_of_calls_that_devices_carry_is_named) {
  const auto call = [](int rank, int sequence, int elements) {
    json line = record(rank, sequence, false);
    line["by_device"] = true;
    line["elements"] = line["alike"] = elements;
    return line;
  };
  expect({{0, {call(0, 3, 10), call(0, 4, 20), call(0, 5, 30), call(0, 6, 40)}},
          {1, {call(1, 3, 10), call(1, 4, 20), call(1, 5, 30)}},
          {2, {call(2, 3, 10), call(2, 4, 21), call(2, 5, 31)}}},
         {"configuration 2, group \"replicas\": number 4 is all-reduce of 20 float32 at rank 0 and "
          "all-reduce of 21 float32 at rank 2"});
  expect({{0, {call(0, 3, 10), call(0, 4, 20)}}, {1, {call(1, 3, 10)}}}, {});
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
