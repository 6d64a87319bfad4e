#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>

#include "tests/support/async_device.h"

namespace troupe::test {

/// Whether tests run on the asynchronous device (TROUPE_TEST_DEVICE=async) and not on the CPU.
inline bool tests_async_device() {
  const char* const name = std::getenv("TROUPE_TEST_DEVICE");
  if (!name || std::string(name) == "cpu") return false;
  if (std::string(name) != "async")
    throw std::invalid_argument(std::string("TROUPE_TEST_DEVICE is ") + name +
                                "; it may be cpu or async");
  return true;
}

/// A seed of the pauses of a device's streams, printed like fresh_seed()'s, but from any thread.
inline std::uint64_t fresh_device_seed() {
  const char* const given = std::getenv("TROUPE_TEST_SEED");
  const std::uint64_t seed = given ? std::strtoull(given, nullptr, 10) : std::random_device{}();
  std::fprintf(stderr, "TROUPE_TEST_SEED=%llu\n", static_cast<unsigned long long>(seed));
  return seed;
}

/// The device that a test computes on, as its environment says; both compute the same bits. A test
/// reads and writes the device's memory through opened(), once its ops have run.
inline std::unique_ptr<tensor::Device> make_test_device(int threads = 1) {
  if (tests_async_device()) return std::make_unique<AsyncDevice>(fresh_device_seed(), threads);
  return tensor::make_cpu_device(threads);
}

/// What a worker that a test makes computes with. The folder of the asynchronous device's library
/// is in TROUPE_CUDA_PATH.
inline tensor::DeviceSpec test_device_spec() {
  return {.kind = tests_async_device() ? tensor::DeviceKind::cuda : tensor::DeviceKind::cpu};
}

}  // namespace troupe::test
