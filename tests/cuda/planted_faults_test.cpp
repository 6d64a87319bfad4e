#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstdio>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include "tensor/cuda/kernels/grid/grid.h"
#include "tensor/cuda/kernels/grid/packs.h"
#include "tensor/cuda/runtime/kernel_stream.h"
#include "tests/support/emulated_device.h"

// Kernels with a fault that the emulated grid must find.

namespace troupe::tensor::cuda {

BOOST_AUTO_TEST_SUITE(planted_faults_test)

namespace {

using emulated_grid::Fault;
using emulated_grid::Grid;

constexpr std::uint64_t kSeeds = 6;

/// The sum of a value of every thread of a block of 4 warps, with or without its two barriers.
template <bool before_read, bool before_reuse>
float block_sum(float value) {
  SHARED(float, partial, 4);
  for (int offset = 16; offset > 0; offset /= 2) value += __shfl_xor_sync(~0u, value, offset);
  if (before_reuse) __syncthreads();
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = value;
  if (before_read) __syncthreads();
  float sum = 0;
  for (int w = 0; w < 4; ++w) sum += partial[w];
  return sum;
}

template <bool before_read, bool before_reuse>
void sums_kernel(float* sums) {
  const float first = block_sum<before_read, before_reuse>(1);
  const float second = block_sum<before_read, before_reuse>(static_cast<float>(threadIdx.x));
  if (threadIdx.x == 0) sums[0] = first;
  if (threadIdx.x == 0) sums[1] = second;
}

/// What the fault says of which a kernel is guilty; empty if it is found innocent.
template <typename... Parameters>
std::string fault_of(std::uint64_t seed, void (*kernel)(Parameters...), dim3 threads,
                     std::size_t shared_bytes, Parameters... arguments) {
  Grid grid(seed);
  try {
    launch(kernel, 2, threads, shared_bytes, grid.stream(), arguments...);
  } catch (const Fault& fault) {
    return fault.what();
  }
  return "";
}

template <typename... Parameters>
void check_fault(const std::string& expected, void (*kernel)(Parameters...), dim3 threads,
                 Parameters... arguments) {
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    const std::string fault = fault_of(seed, kernel, threads, 0, arguments...);
    BOOST_TEST(fault.find(expected) != std::string::npos,
               "seed " << seed << ": \"" << fault << "\" is not \"" << expected << "\"");
  }
}

/// Whether an access outside memory is found: by AddressSanitizer, which ends a process, or else by
/// the Fault that `body` throws.
bool finds_access_outside(const std::function<void()>& body) {
#if defined(__SANITIZE_ADDRESS__)
  std::array<int, 2> pipe_of{};
  BOOST_REQUIRE(pipe(pipe_of.data()) == 0);
  const pid_t child = fork();
  if (child == 0) {
    dup2(pipe_of[1], STDERR_FILENO);
    body();
    _exit(0);
  }
  close(pipe_of[1]);
  std::string report;
  std::array<char, 4096> piece;
  for (ssize_t got; (got = read(pipe_of[0], piece.data(), piece.size())) > 0;) {
    report.append(piece.data(), static_cast<std::size_t>(got));
  }
  close(pipe_of[0]);
  int status = 0;
  waitpid(child, &status, 0);
  return status != 0 && report.find("heap-buffer-overflow") != std::string::npos;
#else
  try {
    body();
  } catch (const Fault&) {
    return true;
  }
  return false;
#endif
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_reduction_with_its_barriers_is_innocent) {
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    std::vector<float> sums(2);
    BOOST_TEST(fault_of(seed, sums_kernel<true, true>, 128, 0, sums.data()) == "");
    BOOST_TEST(sums[0] == 128);
    BOOST_TEST(sums[1] == 127 * 64);
  }
}

BOOST_AUTO_TEST_CASE(a_reduction_without_its_first_barrier_races) {
  std::vector<float> sums(2);
  check_fault("race for partial[", sums_kernel<false, true>, 128, sums.data());
}

BOOST_AUTO_TEST_CASE(an_array_used_again_too_early_races) {
  std::vector<float> sums(2);
  check_fault("race for partial[", sums_kernel<true, false>, 128, sums.data());
}

BOOST_AUTO_TEST_CASE(lanes_of_a_warp_race_unless_they_synchronize) {
  constexpr auto kExchange = [](auto synchronizes) {
    SHARED(int, values, 32);
    const unsigned lane = threadIdx.x;
    values[lane] = static_cast<int>(lane);
    if (synchronizes) __syncwarp();
    const int seen = values[(lane + 1) % 32];
    if (synchronizes) __syncwarp();
    values[lane] = seen;
  };
  static constexpr auto kBody = kExchange;
  check_fault(
      "race for values[", +[] { kBody(std::false_type()); }, 32);
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    BOOST_TEST(fault_of(
                   seed, +[] { kBody(std::true_type()); }, 32, 0) == "");
  }
}

BOOST_AUTO_TEST_CASE(a_value_shuffled_to_a_lane_does_not_order_shared_memory) {
  void (*kernel)() = [] {
    SHARED(int, value, 1);
    if (threadIdx.x == 0) value[0] = 1;
    __shfl_sync(~0u, 0, 0);
    if (threadIdx.x == 1) static_cast<void>(value[0] + 1);
  };
  check_fault("race for value[0]", kernel, 32);
}

BOOST_AUTO_TEST_CASE(an_index_outside_a_shared_array_is_named) {
  void (*kernel)(int) = [](int index) {
    SHARED(float, values, 8);
    values[index] = 1;
  };
  check_fault("accesses values[8], which has 8 elements", kernel, 1, 8);
  check_fault("accesses values[-1], which has 8 elements", kernel, 1, -1);
}

BOOST_AUTO_TEST_CASE(what_a_block_did_not_write_is_not_a_number) {
  void (*kernel)(float*) = [](float* out) {
    SHARED(float, values, 2);
    if (blockIdx.x == 0) values[0] = 1;
    out[blockIdx.x] = values[0] + dynamic_shared<float>()[0];
    dynamic_shared<float>()[0] = 1;
  };
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    std::vector<float> out(2);
    BOOST_TEST(fault_of(seed, kernel, 1, 4, out.data()) == "");
    BOOST_TEST(std::isnan(out[0]));
    BOOST_TEST(std::isnan(out[1]));
  }
}

// Every block adds to its elements the ones that follow them, which another thread overwrites. In
// ascending order nothing is wrong.
BOOST_AUTO_TEST_CASE(a_write_in_place_before_others_have_read_changes_bits) {
  void (*kernel)(float*) = [](float* x) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    x[i] += x[i + 1];
  };
  int wrong = 0;
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    std::vector<float> x(129), expected(129);
    std::iota(x.begin(), x.end(), 0.0f);
    for (std::size_t i = 0; i < 128; ++i) expected[i] = x[i] + x[i + 1];
    expected[128] = x[128];
    BOOST_TEST(fault_of(seed, kernel, 64, 0, x.data()) == "");
    if (seed == 0) BOOST_TEST(x == expected);
    wrong += x != expected;
  }
  BOOST_TEST(wrong == static_cast<int>(kSeeds) - 1);
}

BOOST_AUTO_TEST_CASE(a_vector_too_many_is_found) {
  void (*kernel)(float*, int) = [](float* y, int packs) {
    if (static_cast<int>(threadIdx.x) < packs) store(Pack<4>{}, y + 4 * threadIdx.x);
  };
  for (const int packs : {4, 5}) {
    const bool found = finds_access_outside([&] {
      test::EmulatedDevice device(1);
      const auto stream = device.make_stream();
      const Buffer y = device.allocate(16 * sizeof(float), MemoryKind::device);
      launch(kernel, 1, 32, 0, static_cast<KernelStream&>(*stream).handle(),
             static_cast<float*>(y.data()), packs);
      stream->synchronize();
    });
    BOOST_TEST(found == (packs == 5));
  }
}

BOOST_AUTO_TEST_CASE(a_write_beyond_dynamic_shared_memory_is_found) {
  void (*kernel)(int) = [](int count) {
    if (static_cast<int>(threadIdx.x) < count) dynamic_shared<int>()[threadIdx.x] = 1;
  };
  for (const int count : {7, 8}) {
    const bool found = finds_access_outside([&] {
      Grid grid(1);
      launch(kernel, 2, 32, 7 * sizeof(int), grid.stream(), count);
    });
    BOOST_TEST(found == (count == 8));
  }
}

BOOST_AUTO_TEST_CASE(a_deadlock_names_both_places) {
  static int first = 0, second = 0;
  void (*kernel)() = [] {
    if (threadIdx.x < 32) {
      first = __LINE__ + 1;
      __syncthreads();
    } else {
      second = __LINE__ + 1;
      __syncthreads();
    }
  };
  const std::string fault = fault_of(0, kernel, 64, 0);
  const auto at = [](int line) { return "planted_faults_test.cpp:" + std::to_string(line); };
  BOOST_TEST(fault ==
             "deadlock: thread 0 waits at " + at(first) + ", thread 32 waits at " + at(second));
  check_fault("deadlock: thread 0 waits at ", kernel, 64);
}

BOOST_AUTO_TEST_CASE(threads_that_ended_do_not_hold_a_barrier) {
  void (*kernel)() = [] {
    if (threadIdx.x >= 10) __syncthreads();
  };
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    BOOST_TEST(fault_of(seed, kernel, 64, 0) == "");
  }
}

BOOST_AUTO_TEST_CASE(a_warp_operation_without_all_its_lanes_is_a_deadlock) {
  void (*ended)() = [] {
    if (threadIdx.x != 3) __shfl_xor_sync(~0u, 1, 1);
  };
  check_fault("in __shfl_xor_sync with mask 0xffffffff, thread 3 has ended", ended, 32);
  void (*elsewhere)() = [] {
    if (threadIdx.x != 3) __ballot_sync(~0u, 1);
    if (threadIdx.x == 3) __syncthreads();
  };
  check_fault("in __ballot_sync with mask 0xffffffff, thread 3 waits at ", elsewhere, 32);
  void (*narrow)() = [] { __syncwarp(); };
  check_fault("in __syncwarp with mask 0xffffffff, which has no lane 20", narrow, 20);
}

BOOST_AUTO_TEST_CASE(a_mask_must_have_the_caller_and_the_source) {
  void (*caller)() = [] { __any_sync(1, 1); };
  check_fault("in which its own lane is not", caller, 2);
  void (*source)() = [] {
    if (threadIdx.x < 16) __shfl_sync(0xffff, 1, 20);
  };
  check_fault("reads lane 20, which is not in its mask", source, 32);
}

BOOST_AUTO_TEST_CASE(what_no_device_takes_is_refused) {
  void (*nothing)() = [] {};
  Grid grid(0);
  BOOST_CHECK_THROW(launch(nothing, 0, 32, 0, grid.stream()), Fault);
  BOOST_CHECK_THROW(launch(nothing, 1, 1025, 0, grid.stream()), Fault);
  BOOST_CHECK_THROW(launch(nothing, 1, 32, kSharedOf90 + 1, grid.stream()), Fault);
  BOOST_CHECK_THROW(launch(nothing, dim3(1, 65536), 32, 0, grid.stream()), Fault);
  void (*large)() = [] {
    SHARED(float, values, 12 * 1024);
    SHARED(float, one_more, 1);
    static_cast<void>(values[0] + one_more[0]);
  };
  check_fault("has 49156 bytes of static shared memory", large, 1);
  void (*beside)() = [] {
    SHARED(float, values, 257);
    values[threadIdx.x] = dynamic_shared<float>()[threadIdx.x];
  };
  BOOST_CHECK_EXCEPTION(launch(beside, 1, 1, 4, grid.stream()), Fault, [](const Fault& fault) {
    return std::string(fault.what()).find("has 1028 bytes of static") != std::string::npos;
  });
}

// 98 KiB of dynamic shared memory and up to 1 KiB of static arrays fit the smallest device.
BOOST_AUTO_TEST_CASE(static_arrays_count_for_what_a_device_gives_a_block) {
  void (*kernel)() = [] {
    SHARED(float, values, 200);
    values[threadIdx.x] = dynamic_shared<float>()[threadIdx.x];
  };
  const auto takes = [&](std::size_t shared_limit, std::size_t dynamic) {
    Grid grid(0, shared_limit);
    try {
      launch(kernel, 1, 1, dynamic, grid.stream());
      return true;
    } catch (const Fault&) {
      return false;
    }
  };
  for (const std::size_t limit : {kSharedOf86, kSharedOf80, kSharedOf90}) {
    BOOST_TEST(takes(limit, limit - 800));
    BOOST_TEST(!takes(limit, limit - 796));
  }
}

__global__ void __launch_bounds__(128) bounded_kernel(int* ran) {
  *ran = 1;
}
template <int threads>
__global__ void __launch_bounds__(2 * threads, 2) kernel_of_its_argument(int* ran) {
  *ran = threads;
}

BOOST_AUTO_TEST_CASE(a_block_has_no_more_threads_than_its_kernel_is_compiled_for) {
  int ran = 0;
  BOOST_TEST(fault_of(0, bounded_kernel, 128, 0, &ran) == "");
  BOOST_TEST(ran == 1);
  BOOST_TEST(fault_of(0, bounded_kernel, 160, 0, &ran).find("160 threads") != std::string::npos);
  BOOST_TEST(fault_of(0, kernel_of_its_argument<256>, 512, 0, &ran) == "");
  BOOST_TEST(fault_of(0, kernel_of_its_argument<256>, 513, 0, &ran).find("compiled for 512") !=
             std::string::npos);
}

BOOST_AUTO_TEST_CASE(an_exception_of_a_kernel_reaches_the_caller_and_the_grid_goes_on) {
  void (*kernel)(int) = [](int thrower) {
    __syncthreads();
    if (static_cast<int>(threadIdx.x) == thrower) throw std::runtime_error("planted");
    __syncthreads();
  };
  Grid grid(3);
  BOOST_CHECK_THROW(launch(kernel, 2, 64, 0, grid.stream(), 40), std::runtime_error);
  BOOST_CHECK_NO_THROW(launch(kernel, 2, 64, 0, grid.stream(), 64));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::tensor::cuda
