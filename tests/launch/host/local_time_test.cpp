#include "launch/host/local_time.h"

#include <boost/test/unit_test.hpp>
#include <cstdlib>
#include <ctime>
#include <string>

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(local_time_test)

namespace {

using launch::LocalTime;

constexpr double kNoon = 1769860800;  // 2026-01-31 12:00:00 UTC

/// The time zone of this process is `name`, as in TZ, for as long as the object lives.
struct InZone {
  explicit InZone(const char* name) { set(name); }
  ~InZone() { set("UTC0"); }
  static void set(const char* name) {
    setenv("TZ", name, 1);
    tzset();
  }
};

}  // namespace

BOOST_AUTO_TEST_CASE(times_are_local_and_name_their_zone) {
  {
    const InZone here("UTC0");
    BOOST_TEST(launch::time_text(kNoon) == "2026-01-31 12:00:00 UTC");
  }
  {
    const InZone here("CET-1CEST,M3.5.0,M10.5.0/3");
    BOOST_TEST(launch::time_text(kNoon) == "2026-01-31 13:00:00 UTC+01:00");
    // In summer the clocks are ahead; times beside each other have one zone all the same.
    const double summer = kNoon + 180 * 86400.0;
    BOOST_TEST(launch::time_text(summer) == "2026-07-30 14:00:00 UTC+02:00");
    BOOST_TEST(LocalTime(summer).date(kNoon) == "2026-01-31 14:00:00");
  }
  const InZone here("NST3:30");
  BOOST_TEST(launch::time_text(kNoon) == "2026-01-31 08:30:00 UTC-03:30");
  BOOST_TEST(LocalTime(kNoon).clock(kNoon) == "08:30:00");
}

BOOST_AUTO_TEST_CASE(what_is_no_time_is_no_date) {
  for (const double none : {0.0, -1.0, 1e300}) BOOST_TEST(LocalTime(kNoon).date(none) == "-");
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test
