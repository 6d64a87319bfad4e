#include <hwy/targets.h>

#include "tests/tensor/test_device.h"

namespace troupe::tensor {

std::unique_ptr<Device> make_test_device(int variant) {
  return make_cpu_device(variant);
}

// One and two threads, and every set of kernels that this processor can run: its best, AVX2, and
// plain C++.
void for_each_way(const std::function<void(const std::string& name, const MakeDevice&)>& run) {
  const auto one = [] { return make_cpu_device(1); };
  run("1 thread", one);
  run("2 threads", [] { return make_cpu_device(2); });
  hwy::ChosenTarget& chosen = hwy::GetChosenTarget();
  const std::int64_t lesser[] = {hwy::SupportedTargets() & HWY_AVX2, 0};
  for (const std::int64_t targets : lesser) {
    chosen.Update(targets);
    run("Highway targets " + std::to_string(targets), one);
  }
  chosen.DeInit();
}

bool ways_give_equal_bits() {
  return false;
}

}  // namespace troupe::tensor
