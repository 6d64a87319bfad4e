#include <algorithm>

#include "launch/commands/commands.h"
#include "launch/commands/doctor.h"
#include "launch/host/console.h"
#include "launch/host/own_gpus.h"
#include "tensor/error.h"

namespace troupe::launch {

int run(const DoctorOptions&) {
  const std::vector<Checkup> checkups = examine_machine(own_gpus());
  for (const Checkup& checkup : checkups) print(to_text(checkup));
  const bool fit = std::ranges::none_of(
      checkups, [](const Checkup& c) { return c.result == Checkup::Result::failure; });
  return fit ? 0 : static_cast<int>(ErrorKind::unavailable);
}

}  // namespace troupe::launch
