#include <boost/test/unit_test.hpp>
#include <cstdio>
#include <cstdlib>

#include "tests/support/program.h"

// Where no hosts can be made the tests of this folder end as skipped, and say why.

namespace troupe::test {
namespace {

struct NeedsHosts {
  NeedsHosts() {
    const Finished check =
        Program({TROUPE_SOURCE_FOLDER "/tests/hosts/lab.py", "--check"}).finish();
    if (check.exit_code == 0) return;
    std::fputs((check.out + check.err).c_str(), stdout);
    std::fflush(stdout);
    std::_Exit(check.exit_code);
  }
};

BOOST_TEST_GLOBAL_FIXTURE(NeedsHosts);

}  // namespace
}  // namespace troupe::test
