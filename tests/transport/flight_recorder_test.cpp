#include "transport/collectives/flight_recorder.h"

#include <boost/test/unit_test.hpp>
#include <string>

namespace troupe::transport {

BOOST_AUTO_TEST_SUITE(flight_recorder_test)

BOOST_AUTO_TEST_CASE(the_newest_records_are_kept_in_order) {
  FlightRecorder recorder;
  BOOST_TEST(recorder.records().empty());
  constexpr std::uint64_t kAdded = FlightRecorder::kRecords + 7;
  for (std::uint64_t i = 0; i < kAdded; ++i) BOOST_TEST(recorder.add({.sequence = i}) == i);
  const auto records = recorder.records();
  BOOST_REQUIRE(records.size() == FlightRecorder::kRecords);
  for (std::size_t i = 0; i < records.size(); ++i) BOOST_TEST(records[i].sequence == i + 7);
}

BOOST_AUTO_TEST_CASE(a_record_is_found_until_it_is_replaced) {
  FlightRecorder recorder;
  for (std::uint64_t i = 0; i < FlightRecorder::kRecords; ++i) recorder.add({.sequence = i});
  BOOST_REQUIRE(recorder.find(0));
  recorder.find(0)->finished_s = 12;
  BOOST_TEST(recorder.records().front().finished_s == 12);
  recorder.add({});
  BOOST_TEST(!recorder.find(0));
  BOOST_TEST(recorder.find(1)->sequence == 1u);
  BOOST_TEST(!recorder.find(FlightRecorder::kRecords + 1));
}

BOOST_AUTO_TEST_CASE(a_long_name_of_a_group_is_cut) {
  OperationRecord record;
  record.set_group(std::string(100, 'x'));
  BOOST_TEST(std::string(record.group.data()) == std::string(63, 'x'));
  record.set_group("short");
  BOOST_TEST(std::string(record.group.data()) == "short");
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::transport
