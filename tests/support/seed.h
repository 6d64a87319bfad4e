#pragma once

#include <boost/test/unit_test.hpp>
#include <cstdint>
#include <cstdlib>
#include <random>

namespace troupe::test {

/// A seed for this test's random choices: a new one each run, printed so that a failure can be run
/// again with TROUPE_TEST_SEED=<seed>.
inline std::uint64_t fresh_seed() {
  const char* given = std::getenv("TROUPE_TEST_SEED");
  const std::uint64_t seed = given ? std::strtoull(given, nullptr, 10) : std::random_device{}();
  BOOST_TEST_MESSAGE("TROUPE_TEST_SEED=" << seed);
  return seed;
}

/// How much a test tries: what the environment's variable says, else `usual`.
inline int number_of(const char* variable, int usual) {
  const char* given = std::getenv(variable);
  return given ? std::atoi(given) : usual;
}

}  // namespace troupe::test
