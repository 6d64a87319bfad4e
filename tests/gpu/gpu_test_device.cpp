#include "tensor/device/attention.h"
#include "tensor/device/linear.h"
#include "tests/gpu/needs_gpu.h"
#include "tests/tensor/test_device.h"

namespace troupe::tensor {
namespace {

/// The GPU that all tests of the program share: a device keeps cuDNN's plans, of which there are
/// many and each takes about a second to make.
struct SharedGpu : test::NeedsGpu {
  SharedGpu() { device() = make_device({.kind = DeviceKind::cuda}); }
  ~SharedGpu() { device().reset(); }

  static std::unique_ptr<Device>& device() {
    static std::unique_ptr<Device> shared;
    return shared;
  }
};
BOOST_TEST_GLOBAL_FIXTURE(SharedGpu);

/// The shared GPU, as a device that a test owns.
class OneTestsGpu final : public Device {
 public:
  Buffer allocate(std::size_t bytes, MemoryKind kind) override {
    return gpu_.allocate(bytes, kind);
  }
  std::unique_ptr<Stream> make_stream() override { return gpu_.make_stream(); }
  std::unique_ptr<Event> make_event() override { return gpu_.make_event(); }
  std::unique_ptr<Event> make_timed_event() override { return gpu_.make_timed_event(); }
  bool host_reads_memory() const override { return gpu_.host_reads_memory(); }
  DeviceMemory memory() const override { return gpu_.memory(); }
  Ops& ops() override { return gpu_.ops(); }
  std::unique_ptr<Linear> make_linear(const LinearShape& shape) override {
    return gpu_.make_linear(shape);
  }
  std::unique_ptr<Attention> make_attention(const AttentionShape& shape) override {
    return gpu_.make_attention(shape);
  }
  std::unique_ptr<CachedAttention> make_cached_attention(
      const CachedAttentionShape& shape) override {
    return gpu_.make_cached_attention(shape);
  }

 private:
  Device& gpu_ = *SharedGpu::device();
};

}  // namespace

std::unique_ptr<Device> make_test_device(int) {
  return std::make_unique<OneTestsGpu>();
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
