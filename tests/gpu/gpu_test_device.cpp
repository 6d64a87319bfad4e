#include "tests/gpu/needs_gpu.h"
#include "tests/tensor/test_device.h"

namespace troupe::tensor {

using test::NeedsGpu;
BOOST_TEST_GLOBAL_FIXTURE(NeedsGpu);

std::unique_ptr<Device> make_test_device(int) {
  return make_device({.kind = DeviceKind::cuda});
}

// The same three times: what differs between them is a race, or a sum whose order is not fixed.
void for_each_way(const std::function<void(const std::string& name, const MakeDevice&)>& run) {
  for (int time = 0; time < 3; ++time)
    run("time " + std::to_string(time), [] { return make_test_device(0); });
}

bool ways_give_equal_bits() {
  return true;
}

}  // namespace troupe::tensor
