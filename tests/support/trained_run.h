#pragma once

#include <boost/test/unit_test.hpp>
#include <cmath>
#include <map>
#include <string>

#include "tests/support/small_manifest.h"
#include "tests/support/troupe_program.h"

// Whole runs and their losses, for end-to-end tests.

namespace troupe::test {

/// The numbers of a run by step.
using Numbers = std::map<int, StepNumbers>;

/// The numbers of a run that a launch has ended. Fails the test if it failed, or lost a worker on
/// the way: recovery would hide a stage that crashes in every step.
inline Numbers trained(const Workplace& place, const std::string& name, const Keys& keys) {
  const Finished done = troupe({"launch", place.manifest(name, keys)});
  BOOST_REQUIRE_MESSAGE(done.exit_code == 0,
                        name << " ended with " << done.exit_code << ": " << done.err);
  BOOST_REQUIRE_MESSAGE(done.out.find("recovered at step") == std::string::npos,
                        name << " lost a worker: " << done.out);
  return step_numbers(place.run(name));
}

/// The largest relative difference of losses of the steps that both have.
inline double distance(const Numbers& a, const Numbers& b) {
  double worst = 0;
  for (const auto& [step, numbers] : a)
    if (const auto found = b.find(step); found != b.end())
      worst = std::max(worst, std::abs(numbers.loss / found->second.loss - 1));
  return worst;
}

inline Keys with(Keys keys, const Keys& more) {
  for (const auto& [key, value] : more) keys[key] = value;
  return keys;
}

}  // namespace troupe::test
