#include "actors/protocol/run_end.h"

#include <boost/test/unit_test.hpp>

#include "actors/protocol/worker_failures.h"

namespace troupe::actors {

BOOST_AUTO_TEST_SUITE(run_end_test)

BOOST_AUTO_TEST_CASE(the_first_reason_to_stop_stands) {
  RunEnd end;
  BOOST_TEST(!end.is_near());
  end.stop("SIGTERM", 0);
  end.stop("too many failures", 75);
  BOOST_TEST(*end.stop_reason() == "SIGTERM");
  BOOST_TEST(end.stop_code() == 0);
  BOOST_TEST(end.is_near());
}

BOOST_AUTO_TEST_CASE(the_first_outcome_stands) {
  RunEnd end;
  end.decide({.exit_code = 70, .step = 3, .reason = "first"});
  end.decide({.exit_code = 0, .step = 4, .reason = "second"});
  BOOST_TEST(end.outcome()->reason == "first");
  BOOST_TEST(end.is_near());
}

BOOST_AUTO_TEST_CASE(a_refused_step_brings_the_end_near) {
  RunEnd end;
  end.refuse_step("step 4 was not committed");
  end.refuse_step("step 5 was not committed");
  BOOST_TEST(*end.refused_step() == "step 4 was not committed");
  BOOST_TEST(end.is_near());
  BOOST_TEST(!end.stop_reason().has_value());
}

BOOST_AUTO_TEST_CASE(failures_count_for_an_hour) {
  WorkerFailures failures;
  failures.add(10);
  failures.add(11);
  BOOST_TEST(failures.num_in_last_hour() == 2);
  failures.add(3610);
  BOOST_TEST(failures.num_in_last_hour() == 3);
  failures.add(3611.5);
  BOOST_TEST(failures.num_in_last_hour() == 2);
}

BOOST_AUTO_TEST_CASE(a_failure_repeats_the_one_before_if_it_says_the_same_at_the_same_step) {
  WorkerFailures failures;
  BOOST_TEST(!failures.repeats({.message = "out of memory"}, 7));
  BOOST_TEST(failures.repeats({.message = "out of memory"}, 7));
  BOOST_TEST(!failures.repeats({.message = "a bad checksum"}, 7));
  BOOST_TEST(!failures.repeats({.message = "out of memory"}, 7));
  BOOST_TEST(!failures.repeats({.message = "out of memory"}, 8));
  BOOST_TEST(failures.repeats({.message = "out of memory"}, 8));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::actors
