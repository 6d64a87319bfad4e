#include "actors/agent/clock_meter.h"

#include <boost/test/unit_test.hpp>
#include <cmath>
#include <random>

#include "tests/support/seed.h"

namespace troupe::actors {

BOOST_AUTO_TEST_SUITE(clock_meter_test)

namespace {

/// Two machines, of which the clock of the first is ahead and drifts.
struct Machines {
  double ahead_s = 0;
  double drift = 0;  // of the first clock, in seconds per second
  double now_s = 0;  // on the second one's clock

  double ahead() const { return ahead_s + drift * now_s; }
  double first() const { return now_s + ahead(); }
  /// A round trip that takes so long there and back.
  RoundTrip trip(double there_s, double back_s) {
    RoundTrip trip{.sent_s = first()};
    now_s += there_s;
    trip.there_s = now_s;
    now_s += back_s;
    trip.back_s = first();
    return trip;
  }
};

const auto kNear = boost::test_tools::tolerance(1e-6);
/// Clocks drift while a question is answered.
const auto kButDrift = boost::test_tools::tolerance(3 * ClockMeter::kDrift);

}  // namespace

BOOST_AUTO_TEST_CASE(nothing_is_known_before_the_first_round_trip) {
  BOOST_TEST(!ClockMeter().ahead(5));
}

BOOST_AUTO_TEST_CASE(a_round_trip_tells_the_difference_within_half_of_its_time) {
  Machines machines{.ahead_s = 5000};
  ClockMeter meter;
  meter.add(machines.trip(0.003, 0.001));
  const auto ahead = meter.ahead(machines.first());
  BOOST_REQUIRE(ahead);
  BOOST_TEST(ahead->seconds == 4999.999, kNear);
  BOOST_TEST(ahead->error_s == 0.002, kButDrift);
}

BOOST_AUTO_TEST_CASE(ways_that_were_held_up_do_not_count) {
  Machines machines{.ahead_s = -70};
  ClockMeter meter;
  for (int i = 0; i < 20; ++i) {
    meter.add(machines.trip(0.0001, 0.5));
    meter.add(machines.trip(0.5, 0.0001));
  }
  const auto ahead = meter.ahead(machines.first());
  BOOST_TEST(std::abs(ahead->seconds + 70) < 1e-4);
  BOOST_TEST(ahead->error_s < 2e-4);
}

BOOST_AUTO_TEST_CASE(the_difference_is_never_further_off_than_its_error) {
  std::mt19937_64 random(test::fresh_seed());
  const auto draw = [&](double most) {
    return std::uniform_real_distribution<double>(0, most)(random);
  };
  for (int round = 0; round < 100; ++round) {
    Machines machines{.ahead_s = draw(2e4) - 1e4,
                      .drift = (draw(2) - 1) * ClockMeter::kDrift * 0.99};
    ClockMeter meter;
    for (int i = 0; i < 200; ++i) {
      const double slow_s = random() % 10 == 0 ? 0.2 : 0.002;
      meter.add(machines.trip(draw(slow_s), draw(slow_s)));
      machines.now_s += draw(1);
      const auto ahead = meter.ahead(machines.first());
      BOOST_TEST(std::abs(ahead->seconds - machines.ahead()) <= ahead->error_s + 1e-9);
      BOOST_TEST(ahead->error_s < 0.4);
    }
  }
}

BOOST_AUTO_TEST_CASE(a_clock_that_was_set_is_measured_anew) {
  Machines machines{.ahead_s = 100};
  ClockMeter meter;
  for (int i = 0; i < 10; ++i) meter.add(machines.trip(0.001, 0.001));
  machines.ahead_s = 300;
  meter.add(machines.trip(0.002, 0.002));
  const auto ahead = meter.ahead(machines.first());
  BOOST_TEST(ahead->seconds == 300, kNear);
  BOOST_TEST(ahead->error_s == 0.002, kButDrift);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::actors
