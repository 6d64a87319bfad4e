// A kernel that waits for other GPUs keeps back nothing that they wait for: the device over a
// runtime on the host, as it is, and with the settings that the driver has without it.

#include <atomic>
#include <boost/test/unit_test.hpp>
#include <memory>
#include <string>
#include <vector>

#include "tensor/cuda/cuda_device.h"
#include "tensor/errors/error.h"
#include "tests/host_cudart/host_cudart.h"
#include "tests/support/driver_environment.h"
#include "tests/support/host_cudnn.h"

namespace troupe::tensor::cuda {

BOOST_AUTO_TEST_SUITE(waiting_kernels_test)

namespace {

using test::DriverEnvironment;
using test::HostCudart;

/// A GPU with a kernel of a collective on one stream, which ends once the host has been told that
/// another stream has come to its end: then it goes on for the other GPUs, too.
class Collective {
 public:
  static constexpr std::size_t kStreams = 6;

  Collective()
      : host_(HostCudart::reset(HostCudart::Runs::on_threads)),
        device_(std::make_unique<CudaDevice>(DeviceSpec{.kind = DeviceKind::cuda, .index = 1},
                                             [](const std::string&) {})) {
    for (std::size_t i = 0; i < kStreams; ++i) {
      streams_.push_back(device_->make_stream());
      events_.push_back(device_->make_event());
    }
  }
  ~Collective() {
    streams_.clear();
    events_.clear();
    device_.reset();
    HostCudart::reset();
  }

  HostCudart& host() { return host_; }
  void launch(const test::HostKernel& kernel, std::size_t stream) {
    const auto& of = static_cast<const KernelStream&>(*streams_[stream]);
    if (host_.launch(kernel, of.handle()) != cudaSuccess)
      throw Error(ErrorKind::internal, host_.deadlock());
  }
  /// Launches the collective on stream `waits`, behind it `kernel` on stream `runs`, and waits.
  void run(std::size_t waits, const test::HostKernel& kernel, std::size_t runs) {
    has_come_ = false;
    launch({"collective", [this] { return has_come_.load(); }}, waits);
    launch(kernel, runs);
    events_[runs]->record(*streams_[runs]);
    events_[runs]->on_reached(
        [](void* of) {
          static_cast<Collective*>(of)->has_come_ = true;
          HostCudart::get().tell();
        },
        this);
    streams_[waits]->synchronize();
    streams_[runs]->synchronize();  // what it tells uses the host's runtime
  }
  /// What run() does of every two streams, one after the other. Returns what it waited for in vain;
  /// empty if nothing.
  std::string run_all_pairs() {
    try {
      for (std::size_t waits = 0; waits < kStreams; ++waits)
        for (std::size_t runs = 0; runs < kStreams; ++runs)
          if (waits != runs) run(waits, {"product"}, runs);
    } catch (const Error&) {
      BOOST_TEST(!host_.deadlock().empty());
    }
    return host_.deadlock();
  }

 private:
  std::atomic<bool> has_come_{false};
  HostCudart& host_;
  std::unique_ptr<CudaDevice> device_;
  std::vector<std::unique_ptr<Stream>> streams_;
  std::vector<std::unique_ptr<Event>> events_;
};

/// For what waits for ever.
constexpr std::chrono::milliseconds kShort{300};

bool holds(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

BOOST_AUTO_TEST_CASE(streams_do_not_share_queues) {
  const DriverEnvironment none;
  Collective collective;
  BOOST_TEST(collective.host().hardware_queues() == 32);
  BOOST_TEST(collective.run_all_pairs() == "");
}

BOOST_AUTO_TEST_CASE(with_the_queues_of_a_driver_by_itself_a_stream_waits_for_the_collective) {
  const DriverEnvironment as_by_itself("8");
  Collective collective;
  BOOST_TEST(collective.host().hardware_queues() == 8);
  collective.host().deadline = kShort;
  const std::string deadlock = collective.run_all_pairs();
  BOOST_TEST(holds(deadlock, "is at kernel collective"), deadlock);
  BOOST_TEST(!holds(deadlock, "is loaded"), deadlock);
}

BOOST_AUTO_TEST_CASE(a_kernel_is_launched_first_beside_the_collective) {
  const DriverEnvironment none;
  Collective collective;
  BOOST_CHECK_NO_THROW(collective.run(0, {"sum"}, 1));
  BOOST_TEST(collective.host().deadlock() == "");
}

BOOST_AUTO_TEST_CASE(a_kernel_that_is_loaded_when_it_is_launched_waits_for_the_collective) {
  const DriverEnvironment as_by_itself(nullptr, "LAZY");
  Collective collective;
  // What ran in a step before any collective waited is there.
  collective.launch({"product"}, 1);
  collective.launch({"collective"}, 0);
  BOOST_CHECK_NO_THROW(collective.run(0, {"product"}, 1));
  collective.host().deadline = kShort;
  BOOST_CHECK_THROW(collective.run(0, {"sum"}, 1), Error);
  const std::string deadlock = collective.host().deadlock();
  BOOST_TEST(holds(deadlock, "the context's lock is held while sum is loaded"), deadlock);
  BOOST_TEST(holds(deadlock, "is at kernel collective"), deadlock);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::tensor::cuda
