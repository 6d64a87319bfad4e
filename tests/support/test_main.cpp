// The main function that all test programs share: Boost.Test's own.
#define BOOST_TEST_MODULE troupe
#include <boost/test/unit_test.hpp>
