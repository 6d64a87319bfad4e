#include "tests/support/host_cublaslt.h"
#include "tests/tensor/test_device.h"

namespace troupe::tensor {

std::unique_ptr<Device> make_test_device(int variant) {
  return test::make_cublaslt_device(variant);
}

void for_each_way(const std::function<void(const std::string& name, const MakeDevice&)>& run) {
  run("cuBLASLt on the host", [] { return make_test_device(0); });
}

bool ways_give_equal_bits() {
  return true;
}

}  // namespace troupe::tensor
