#include <boost/test/unit_test.hpp>
#include <limits>
#include <utility>

#include "actors/protocol.h"
#include "tests/support/protocol_driver.h"
#include "tests/support/run_specs.h"

// How the protocol ends a run, and what it saves before.

namespace troupe::actors {

BOOST_AUTO_TEST_CASE(the_step_before_one_that_is_not_finite_is_saved_and_named) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  Driver driver(test::small_run());
  driver.start();
  driver.prepared(1);
  const auto refused = driver.prepared(2, nan);
  BOOST_REQUIRE(find<OrderSave>(refused));
  BOOST_TEST(find<OrderSave>(refused)->step == 1);
  BOOST_TEST(!find<OrderFinish>(refused));
  driver.saved(1);
  BOOST_TEST(find<OrderFinish>(driver.on(Published{.step = 1})));
  const Outcome outcome = end_of(driver);
  BOOST_TEST(outcome.exit_code == 70);
  BOOST_TEST(outcome.step == 1);
  for (const std::string& part :
       {std::string("step 2 was not committed"), checkpoint_path(driver.spec, 1)})
    BOOST_TEST(outcome.reason.find(part) != std::string::npos, outcome.reason);
}

BOOST_AUTO_TEST_CASE(why_the_step_before_one_that_is_not_finite_was_not_saved_is_told) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const auto& [event, why] :
       {std::pair<Event, std::string>{Published{.step = 1, .error = "the disk is full"},
                                      "the disk is full"},
        {StopNowOrdered{.reason = "a second signal"}, "a second signal"},
        {DirectorFailed{.message = "no memory"}, "no memory"}}) {
    Driver driver(test::small_run());
    driver.start();
    driver.prepared(1);
    driver.prepared(2, nan);
    driver.on(event);
    const Outcome outcome = end_of(driver);
    BOOST_TEST(outcome.exit_code == 70);
    for (const std::string& part :
         {std::string("step 2 was not committed"), "step 1 could not be saved: " + why})
      BOOST_TEST(outcome.reason.find(part) != std::string::npos, outcome.reason);
  }
}

}  // namespace troupe::actors
