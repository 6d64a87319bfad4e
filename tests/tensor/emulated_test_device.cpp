#include <cstdlib>
#include <string>

#include "tests/support/emulated_device.h"
#include "tests/support/seed.h"
#include "tests/tensor/test_device.h"

namespace troupe::tensor {
namespace {

/// In how many orders the threads of a block run. They are drawn anew each time, so that every run
/// of the tests has others. What a sanitizer looks for follows from the accesses, which every order
/// has; it takes ten times as long.
#ifdef __SANITIZE_ADDRESS__
constexpr int kOrders = 2;
#else
constexpr int kOrders = 3;
#endif

}  // namespace

// The shared memory of a block is that of the smallest GPU: what its kernels fit, they fit
// everywhere. Those that use more where there is more are tested once more with what
// TROUPE_SHARED_LIMIT says, in KiB.
std::unique_ptr<Device> make_test_device(int variant) {
  const char* const limit = std::getenv("TROUPE_SHARED_LIMIT");
  return std::make_unique<test::EmulatedDevice>(
      static_cast<std::uint64_t>(variant),
      limit ? std::size_t{1024} * std::stoul(limit) : cuda::kSharedOf86);
}

void for_each_way(const std::function<void(const std::string& name, const MakeDevice&)>& run) {
  const int first = static_cast<int>(test::fresh_seed() % 1'000'000'000);
  for (int seed = first; seed < first + kOrders; ++seed) {
    run("seed " + std::to_string(seed), [seed] { return make_test_device(seed); });
  }
}

bool ways_give_equal_bits() {
  return true;
}

}  // namespace troupe::tensor
