// The runtime of the host itself: what its queues and its context's lock keep back is what those of
// a GPU do.

#include "tests/host_cudart/host_cudart.h"

#include <array>
#include <atomic>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/support/driver_environment.h"

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(host_cudart_test)

namespace {

using Runs = HostCudart::Runs;

/// For a call that waits for ever.
constexpr std::chrono::milliseconds kShort{300};

bool holds(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

cudaStream_t make_stream() {
  cudaStream_t stream = nullptr;
  BOOST_REQUIRE(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess);
  return stream;
}

/// A runtime whose queues have threads, and streams that are destroyed at the end.
struct Machine {
  explicit Machine(const char* connections, const char* loading = nullptr)
      : environment(connections, loading), host(HostCudart::reset(Runs::on_threads)) {
    BOOST_REQUIRE(cudaInitDevice(0, 0, 0) == cudaSuccess);
    cudaSetDevice(0);
    for (cudaStream_t& stream : streams) stream = make_stream();
  }
  ~Machine() {
    for (cudaStream_t stream : streams) cudaStreamDestroy(stream);
    HostCudart::reset();
  }
  /// Ends the kernels.
  void go() {
    may_go = true;
    host.tell();
  }

  const DriverEnvironment environment;
  HostCudart& host;
  std::atomic<bool> may_go{false};
  const HostKernel waits{"waits", [this] { return may_go.load(); }};
  std::array<cudaStream_t, 3> streams{};
};

}  // namespace

BOOST_AUTO_TEST_CASE(a_queue_for_each_stream_keeps_nothing_back) {
  Machine machine("32");
  BOOST_TEST(machine.host.hardware_queues() == 32);
  BOOST_TEST(machine.host.launch(machine.waits, machine.streams[0]) == cudaSuccess);
  BOOST_TEST(machine.host.launch({"waits"}, machine.streams[1]) == cudaSuccess);
  BOOST_TEST(cudaStreamSynchronize(machine.streams[1]) == cudaSuccess);
  machine.go();
  BOOST_TEST(cudaStreamSynchronize(machine.streams[0]) == cudaSuccess);
  BOOST_TEST(machine.host.deadlock() == "");
}

BOOST_AUTO_TEST_CASE(streams_that_share_a_queue_wait_for_each_other) {
  Machine machine("2", "EAGER");
  machine.host.launch(machine.waits, machine.streams[0]);
  machine.host.launch({"behind"}, machine.streams[2]);
  BOOST_TEST(cudaStreamSynchronize(machine.streams[1]) == cudaSuccess);
  machine.host.deadline = kShort;
  BOOST_TEST(cudaStreamSynchronize(machine.streams[2]) == cudaErrorLaunchTimeout);
  BOOST_TEST(holds(machine.host.deadlock(), "cudaStreamSynchronize waits"));
  BOOST_TEST(holds(machine.host.deadlock(), "GPU 0 queue 0 is at kernel waits"));
  BOOST_TEST(cudaStreamSynchronize(machine.streams[1]) == cudaErrorLaunchTimeout);
}

BOOST_AUTO_TEST_CASE(a_kernel_is_loaded_once_the_queues_are_empty) {
  Machine machine("32");
  BOOST_TEST(machine.host.launch(machine.waits, machine.streams[0]) == cudaSuccess);
  std::atomic<bool> is_launched{false};
  cudaError_t code = cudaErrorUnknown;
  std::thread launcher([&] {
    cudaSetDevice(0);
    code = machine.host.launch({"first"}, machine.streams[1]);
    is_launched = true;
  });
  while (!machine.host.is_loading()) std::this_thread::yield();
  BOOST_TEST(!is_launched);
  machine.go();
  launcher.join();
  BOOST_TEST(code == cudaSuccess);
  BOOST_TEST(machine.host.deadlock() == "");
}

BOOST_AUTO_TEST_CASE(every_call_waits_while_a_kernel_is_loaded) {
  Machine machine("32");
  cudaEvent_t event = nullptr;
  cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
  machine.host.launch(machine.waits, machine.streams[0]);
  machine.host.deadline = kShort;
  cudaError_t code = cudaSuccess;
  std::thread launcher([&] {
    cudaSetDevice(0);
    code = machine.host.launch({"first"}, machine.streams[1]);
  });
  while (!machine.host.is_loading() && machine.host.deadlock().empty()) std::this_thread::yield();
  // Its answer would let the kernel end that the loading waits for.
  BOOST_TEST(cudaEventQuery(event) == cudaErrorLaunchTimeout);
  launcher.join();
  BOOST_TEST(code == cudaErrorLaunchTimeout);
  BOOST_TEST(holds(machine.host.deadlock(), "the context's lock is held while first is loaded"));
  BOOST_TEST(holds(machine.host.deadlock(), "is at kernel waits"));
  cudaEventDestroy(event);
}

BOOST_AUTO_TEST_CASE(with_the_context_all_kernels_are_loaded) {
  Machine machine("32", "EAGER");
  machine.host.launch(machine.waits, machine.streams[0]);
  BOOST_TEST(machine.host.launch({"first"}, machine.streams[1]) == cudaSuccess);
  BOOST_TEST(cudaStreamSynchronize(machine.streams[1]) == cudaSuccess);
  machine.go();
}

BOOST_AUTO_TEST_CASE(calls_of_the_host_and_copies_run_in_the_order_of_their_stream) {
  Machine machine("32");
  constexpr std::size_t kBytes = 1000;
  void *device = nullptr, *pinned = nullptr;
  BOOST_REQUIRE(cudaMalloc(&device, kBytes) == cudaSuccess);
  BOOST_REQUIRE(cudaHostAlloc(&pinned, kBytes, 0) == cudaSuccess);
  auto* const bytes = static_cast<unsigned char*>(pinned);
  BOOST_TEST(bytes[0] == 0xff);
  int seen = -1;
  const auto look = [](void* argument) {
    auto& [at, value] = *static_cast<std::pair<unsigned char*, int*>*>(argument);
    *value = at[kBytes - 1];
  };
  std::pair<unsigned char*, int*> argument{bytes, &seen};
  cudaMemsetAsync(device, 7, kBytes, machine.streams[0]);
  cudaMemcpyAsync(pinned, device, kBytes, cudaMemcpyDefault, machine.streams[0]);
  cudaLaunchHostFunc(machine.streams[0], look, &argument);
  BOOST_TEST(cudaStreamSynchronize(machine.streams[0]) == cudaSuccess);
  BOOST_TEST(seen == 7);
  BOOST_TEST(cudaFree(device) == cudaSuccess);
  BOOST_TEST(cudaFreeHost(pinned) == cudaSuccess);
  BOOST_TEST(machine.host.used == 0u);
}

BOOST_AUTO_TEST_CASE(memory_of_the_host_is_copied_only_if_it_is_pinned) {
  Machine machine("32");
  void* device = nullptr;
  BOOST_REQUIRE(cudaMalloc(&device, 100) == cudaSuccess);
  std::vector<char> plain(100);
  const auto copy = [&](std::size_t bytes) {
    return cudaMemcpyAsync(device, plain.data(), bytes, cudaMemcpyDefault, machine.streams[0]);
  };
  cudaPointerAttributes about{};
  BOOST_TEST(copy(100) == cudaErrorInvalidValue);
  BOOST_TEST(cudaHostRegister(plain.data(), 60, cudaHostRegisterPortable) == cudaSuccess);
  BOOST_TEST(cudaHostRegister(plain.data() + 50, 10, 0) == cudaErrorHostMemoryAlreadyRegistered);
  BOOST_TEST(copy(61) == cudaErrorInvalidValue);
  BOOST_TEST(copy(60) == cudaSuccess);
  cudaPointerGetAttributes(&about, plain.data() + 59);
  BOOST_TEST(about.type == cudaMemoryTypeHost);
  cudaPointerGetAttributes(&about, plain.data() + 60);
  BOOST_TEST(about.type == cudaMemoryTypeUnregistered);
  cudaPointerGetAttributes(&about, device);
  BOOST_TEST(about.type == cudaMemoryTypeDevice);
  BOOST_TEST(cudaStreamSynchronize(machine.streams[0]) == cudaSuccess);
  BOOST_TEST(cudaHostUnregister(plain.data()) == cudaSuccess);
  BOOST_TEST(cudaHostUnregister(plain.data()) == cudaErrorHostMemoryNotRegistered);
  cudaFree(device);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test
