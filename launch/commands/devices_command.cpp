#include "launch/commands/commands.h"
#include "launch/host/console.h"
#include "launch/host/device_json.h"

namespace troupe::launch {

int run(const DevicesOptions&) {
  print(to_json(tensor::report_cuda_devices()).dump() + "\n");
  return 0;
}

}  // namespace troupe::launch
