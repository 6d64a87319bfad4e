#include "launch/host/quantities.h"

#include <boost/test/unit_test.hpp>

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(quantities_test)

BOOST_AUTO_TEST_CASE(numbers_are_written_for_people) {
  BOOST_TEST(launch::bytes_text(0) == "0 B");
  BOOST_TEST(launch::bytes_text(1023) == "1023 B");
  BOOST_TEST(launch::bytes_text(1536) == "1.5 KiB");
  BOOST_TEST(launch::bytes_text(std::int64_t{3} << 30) == "3.0 GiB");
  BOOST_TEST(launch::grouped(0) == "0");
  BOOST_TEST(launch::grouped(999) == "999");
  BOOST_TEST(launch::grouped(1000) == "1,000");
  BOOST_TEST(launch::grouped(12345678) == "12,345,678");
  BOOST_TEST(launch::grouped(-123456) == "-123,456");
}

BOOST_AUTO_TEST_CASE(durations_are_written_in_days_hours_minutes_seconds) {
  BOOST_TEST(launch::duration_text(0) == "0:00:00");
  BOOST_TEST(launch::duration_text(3599.9) == "0:59:59");
  BOOST_TEST(launch::duration_text(90061) == "1d 1:01:01");
  BOOST_TEST(launch::duration_text(-1) == "0:00:00");
}

BOOST_AUTO_TEST_CASE(short_durations_have_three_digits) {
  BOOST_TEST(launch::span_text(0) == "0 ms");
  BOOST_TEST(launch::span_text(0.00006291) == "62.9 us");
  BOOST_TEST(launch::span_text(0.0006291) == "0.629 ms");
  BOOST_TEST(launch::span_text(0.0123456) == "12.3 ms");
  BOOST_TEST(launch::span_text(0.9999) == "1 s");
  BOOST_TEST(launch::span_text(4.5678) == "4.57 s");
  BOOST_TEST(launch::span_text(3723) == "1:02:03");
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test
