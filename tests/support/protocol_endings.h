#pragma once

#include <boost/test/unit_test.hpp>
#include <map>
#include <string>
#include <vector>

#include "tests/support/protocol_driver.h"

// What happens around a DirectorProtocol while a run ends: checkpoints, recoveries, waits.

namespace troupe::actors {

/// Lets the checkpoint that is being written fail. Returns the effects.
inline std::vector<Effect> fail_save(Driver& driver, std::int64_t step, const std::string& why) {
  driver.saved(step, why);
  return driver.on(Published{.step = step, .error = why});
}

/// Lets the wait end that the effects begin. Returns the effects of that.
inline std::vector<Effect> wait_out(Driver& driver, const std::vector<Effect>& effects) {
  const StartTimer* timer = find<StartTimer>(effects);
  BOOST_REQUIRE(timer);
  return driver.on(TimerRang{.timer = timer->timer});
}

/// Lets every attempt to save the last step fail. Returns the effects of the last one.
inline std::vector<Effect> fail_every_save(Driver& driver, std::int64_t step,
                                           const std::string& why) {
  auto effects = fail_save(driver, step, why);
  while (find<StartTimer>(effects) && !find<Finish>(effects)) {
    BOOST_REQUIRE(find<OrderSave>(wait_out(driver, effects)));
    effects = fail_save(driver, step, why);
  }
  return effects;
}

/// Lets every worker of a recovery halt, with the state that it has, and be ready.
inline std::vector<Effect> recover(Driver& driver, const std::vector<Effect>& gathered,
                                   const std::map<int, StateInventory>& held) {
  const OrderHalt* halt = find<OrderHalt>(gathered);
  BOOST_REQUIRE(halt);
  for (const auto& [rank, inventory] : held)
    driver.on(driver.halted(rank, halt->halt.configuration, inventory));
  for (int rank = 0; rank < driver.spec.num_ranks(); ++rank)
    if (!held.contains(rank)) driver.on(driver.joined(rank));
  return driver.ready();
}

/// The end of a run that saves this step first.
inline Outcome end_saved(Driver& driver, const std::vector<Effect>& ready, std::int64_t step) {
  const OrderSave* save = find<OrderSave>(ready);
  BOOST_REQUIRE(save);
  BOOST_TEST(save->step == step);
  driver.saved(step);
  BOOST_TEST(find<Finish>(driver.on(Published{.step = step})));
  return end_of(driver);
}

}  // namespace troupe::actors
