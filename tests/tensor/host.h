#pragma once

#include <hwy/targets.h>

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <deque>
#include <memory>
#include <vector>

#include "tensor/attention.h"
#include "tensor/device.h"
#include "tensor/linear.h"
#include "tensor/ops.h"
#include "tensor/random.h"
#include "tests/support/reference_ops.h"

namespace troupe::tensor {

using reference::Values;

/// A CPU device with memory for the tensors of one test case.
class Host {
 public:
  explicit Host(int threads) : device_(make_cpu_device(threads)), stream_(device_->make_stream()) {}

  Device& device() { return *device_; }
  Stream& stream() { return *stream_; }
  Ops& ops() { return device_->ops(); }

  Tensor zeros(DType dtype, Shape shape) {
    const auto bytes = static_cast<std::size_t>(shape.num_elements()) * size_of(dtype);
    buffers_.push_back(device_->allocate(bytes, MemoryKind::host));
    return buffers_.back().view(dtype, shape);
  }

  /// Random values that follow from `name`, rounded to dtype, so that read() returns exactly what
  /// an op sees.
  Tensor normal(DType dtype, Shape shape, std::string_view name, double stddev = 1) {
    const Tensor x = zeros(dtype, shape);
    const Random random(7, name);
    Values values(static_cast<std::size_t>(shape.num_elements()));
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = stddev * random.normal(i);
    write(values, x);
    return x;
  }

  Tensor ids(const std::vector<std::int32_t>& values) {
    const Tensor x = zeros(DType::i32, {static_cast<std::int64_t>(values.size())});
    std::ranges::copy(values, x.as<std::int32_t>());
    return x;
  }

  /// Gives a Linear or Attention scratch memory of exactly the size it asks for, full of NaNs.
  template <typename Layer>
  void give_scratch(Layer& layer) {
    const auto [forward, backward] = layer.scratch_bytes();
    layer.set_scratch({.forward = not_a_number(forward), .backward = not_a_number(backward)});
  }

  static void write(const Values& values, const Tensor& x) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      const auto value = static_cast<float>(values[i]);
      if (x.dtype == DType::f32) x.as<float>()[i] = value;
      if (x.dtype == DType::bf16) x.as<BFloat16>()[i] = to_bfloat16(value);
    }
  }

  static Values read(const Tensor& x) {
    Values values(static_cast<std::size_t>(x.num_elements()));
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i] = x.dtype == DType::f32 ? x.as<float>()[i] : to_float(x.as<BFloat16>()[i]);
    }
    return values;
  }

 private:
  void* not_a_number(std::size_t bytes) {
    buffers_.push_back(device_->allocate(bytes, MemoryKind::host));
    return std::memset(buffers_.back().data(), 0xff, bytes);
  }

  std::unique_ptr<Device> device_;
  std::unique_ptr<Stream> stream_;
  std::deque<Buffer> buffers_;
};

/// Fails unless every element is within `tolerance` times the largest expected magnitude.
inline void check_near(const Values& got, const Values& expected, double tolerance) {
  BOOST_REQUIRE_EQUAL(got.size(), expected.size());
  if (expected.empty()) return;
  double largest = 0;
  for (const double x : expected) largest = std::max(largest, std::abs(x));
  double worst = 0;
  std::size_t where = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    const double error = std::abs(got[i] - expected[i]);
    if (!(error <= worst)) {
      worst = error;
      where = i;
      if (std::isnan(error)) break;
    }
  }
  BOOST_TEST(worst <= tolerance * largest,
             "element " << where << ": got " << got[where] << ", expected " << expected[where]
                        << ", error " << worst << " of largest " << largest << ", tolerated "
                        << tolerance * largest);
}

inline void check_near(const Tensor& got, const Values& expected, double tolerance) {
  check_near(Host::read(got), expected, tolerance);
}

inline bool same_bits(const Tensor& a, const Tensor& b) {
  return a.num_bytes() == b.num_bytes() && std::memcmp(a.data, b.data, a.num_bytes()) == 0;
}

/// Tolerance for the error of a few roundings to dtype.
inline double tolerance_of(DType dtype) {
  return dtype == DType::f32 ? 2e-6 : 1.2e-2;
}

/// Calls body(dtype, host) for both dtypes, for one and two threads, and for every set of kernels
/// that this processor can run: its best, AVX2, and plain C++.
template <typename Body>
void for_each_setup(const Body& body) {
  const auto run = [&](int threads) {
    for (const DType dtype : {DType::f32, DType::bf16}) {
      BOOST_TEST_CONTEXT(name_of(dtype) << ", " << threads << " threads") {
        Host host(threads);
        body(dtype, host);
      }
    }
  };
  run(1);
  run(2);
  hwy::ChosenTarget& chosen = hwy::GetChosenTarget();
  const std::int64_t lesser[] = {hwy::SupportedTargets() & HWY_AVX2, 0};
  for (const std::int64_t targets : lesser) {
    BOOST_TEST_CONTEXT("Highway targets " << targets) {
      chosen.Update(targets);
      run(1);
    }
  }
  chosen.DeInit();
}

}  // namespace troupe::tensor
