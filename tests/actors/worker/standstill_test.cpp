#include "actors/worker/standstill.h"

#include <boost/test/unit_test.hpp>

namespace troupe::actors {

BOOST_AUTO_TEST_SUITE(standstill_test)

BOOST_AUTO_TEST_CASE(a_count_that_no_longer_grows_is_noticed_once) {
  using std::chrono::seconds;
  Standstill standstill{seconds(2)};
  const Standstill::Clock::time_point start{seconds(100)};
  BOOST_TEST(!standstill.observe(0, start));
  BOOST_TEST(!standstill.observe(0, start + seconds(1)));
  BOOST_TEST(!standstill.observe(1, start + seconds(2)));  // it has grown
  BOOST_TEST(!standstill.observe(1, start + seconds(3)));
  BOOST_TEST(standstill.observe(1, start + seconds(4)));
  BOOST_TEST(!standstill.observe(1, start + seconds(9)));
  BOOST_TEST(!standstill.observe(2, start + seconds(10)));
  BOOST_TEST(standstill.observe(2, start + seconds(12)));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::actors
