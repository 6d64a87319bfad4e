#include "launch/host/console.h"

#include <fcntl.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <cstdio>

#include "tests/support/expect_error.h"

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(console_test)

BOOST_AUTO_TEST_CASE(what_cannot_be_printed_is_an_error) {
  std::fflush(stdout);
  const int before = ::dup(STDOUT_FILENO);
  const int full = ::open("/dev/full", O_WRONLY);
  BOOST_REQUIRE(full >= 0);
  ::dup2(full, STDOUT_FILENO);
  expect_error(ErrorKind::data, {"cannot write the output", "No space left on device"},
               [] { launch::print("a line\n"); });
  ::dup2(before, STDOUT_FILENO);
  std::clearerr(stdout);
  ::close(full);
  ::close(before);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test
