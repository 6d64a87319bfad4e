#include <cstdlib>
#include <string>

#include "tests/support/emulated_device.h"
#include "tests/tensor/test_device.h"

namespace troupe::tensor {
namespace {

/// What a sanitizer looks for follows from the accesses, which every order has; it takes ten times
/// as long.
#ifdef __SANITIZE_ADDRESS__
constexpr int kSeeds = 2;
#else
constexpr int kSeeds = 6;
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
  for (int seed = 0; seed < kSeeds; ++seed) {
    run("seed " + std::to_string(seed), [seed] { return make_test_device(seed); });
  }
}

bool ways_give_equal_bits() {
  return true;
}

}  // namespace troupe::tensor
