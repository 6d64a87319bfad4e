#pragma once

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <map>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "tensor/device/attention.h"
#include "tensor/device/device.h"
#include "tensor/device/linear.h"
#include "tensor/device/ops.h"
#include "tensor/values/random.h"
#include "tests/support/reference_ops.h"
#include "tests/tensor/test_device.h"

namespace troupe::tensor {

using reference::Values;
using HostBytes = std::vector<std::byte>;

/// A device under test with memory for the tensors of one test case. Their elements are read and
/// written through pinned memory where the host cannot follow pointers to the device's, after
/// whatever the stream was given. Used by one thread.
class Host {
 public:
  explicit Host(std::unique_ptr<Device> device)
      : device_(std::move(device)), stream_(device_->make_stream()) {
    hosts().push_back(this);
  }
  /// For the meaning of `variant` see make_test_device().
  explicit Host(int variant) : Host(make_test_device(variant)) {}
  Host(const Host&) = delete;
  Host& operator=(const Host&) = delete;
  ~Host() { std::erase(hosts(), this); }

  Device& device() { return *device_; }
  Stream& stream() { return *stream_; }
  Ops& ops() { return device_->ops(); }

  Tensor zeros(DType dtype, Shape shape) {
    const auto bytes = static_cast<std::size_t>(shape.num_elements()) * size_of(dtype);
    buffers_.push_back(device_->allocate(bytes, MemoryKind::device));
    return buffers_.back().view(dtype, shape);
  }

  /// Memory for what an op should overwrite, full of NaNs.
  Tensor output(DType dtype, Shape shape) {
    const Tensor x = zeros(dtype, shape);
    set_bytes(x, HostBytes(x.num_bytes(), std::byte{0xff}));
    return x;
  }

  /// A tensor of these values, rounded to dtype.
  Tensor of(DType dtype, Shape shape, const Values& values) {
    const Tensor x = zeros(dtype, shape);
    write(values, x);
    return x;
  }

  /// Random values that follow from `name`, rounded to dtype, so that read() returns exactly what
  /// an op sees.
  Tensor normal(DType dtype, Shape shape, std::string_view name, double stddev = 1) {
    const Random random(7, name);
    Values values(static_cast<std::size_t>(shape.num_elements()));
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = stddev * random.normal(i);
    return of(dtype, shape, values);
  }

  Tensor ids(const std::vector<std::int32_t>& values) {
    const Tensor x = zeros(DType::i32, {static_cast<std::int64_t>(values.size())});
    set_bytes(x, std::as_bytes(std::span(values)));
    return x;
  }

  /// Calls `op` with a place for one float64, and returns what it wrote there.
  template <typename Op>
  double number_of(Op&& op) {
    const Tensor x = output(DType::f64, {1});
    op(x);
    double number = 0;
    std::memcpy(&number, bytes_of(x).data(), sizeof number);
    return number;
  }
  double cross_entropy(const Tensor& logits, const Tensor& targets, float scale,
                       const Tensor& dlogits = {}) {
    return number_of([&](const Tensor& loss) {
      ops().cross_entropy(*stream_, logits, targets, scale, loss, dlogits);
    });
  }
  double sum_of_squares(const Tensor& x) {
    return number_of(
        [&](const Tensor& sum) { ops().sums_of_squares(*stream_, x, x.num_elements(), sum); });
  }

  /// Gives a Linear or Attention scratch memory of exactly the size it asks for, full of NaNs.
  template <typename Layer>
  void give_scratch(Layer& layer) {
    const auto [forward, backward] = layer.scratch_bytes();
    layer.set_scratch({.forward = not_a_number(forward), .backward = not_a_number(backward)});
  }

  static void write(const Values& values, const Tensor& x) {
    HostBytes bytes(x.num_bytes());
    for (std::size_t i = 0; i < values.size(); ++i) {
      const auto value = static_cast<float>(values[i]);
      const BFloat16 narrow = to_bfloat16(value);
      if (x.dtype == DType::f32) std::memcpy(&bytes[4 * i], &value, 4);
      if (x.dtype == DType::bf16) std::memcpy(&bytes[2 * i], &narrow, 2);
    }
    set_bytes(x, bytes);
  }

  static Values read(const Tensor& x) {
    const HostBytes bytes = bytes_of(x);
    Values values(static_cast<std::size_t>(x.num_elements()));
    if (x.dtype == DType::f64) std::memcpy(values.data(), bytes.data(), bytes.size());
    for (std::size_t i = 0; i < values.size() && x.dtype != DType::f64; ++i) {
      float value = 0;
      BFloat16 narrow;
      if (x.dtype == DType::f32) std::memcpy(&value, &bytes[4 * i], 4);
      if (x.dtype == DType::bf16) std::memcpy(&narrow, &bytes[2 * i], 2);
      values[i] = x.dtype == DType::f32 ? value : to_float(narrow);
    }
    return values;
  }

  static HostBytes bytes_of(const Tensor& x) {
    HostBytes bytes(x.num_bytes());
    if (bytes.empty()) return bytes;
    if (Host* host = owner_of(x)) {
      const Tensor pinned = host->pinned(bytes.size());
      host->ops().copy(host->stream(), whole_bytes(x), pinned);
      host->stream_->synchronize();
      std::memcpy(bytes.data(), pinned.data, bytes.size());
    } else {
      std::memcpy(bytes.data(), x.data, bytes.size());
    }
    return bytes;
  }

  static void set_bytes(const Tensor& x, std::span<const std::byte> bytes) {
    if (bytes.empty()) return;
    if (Host* host = owner_of(x)) {
      const Tensor pinned = host->pinned(bytes.size());
      std::memcpy(pinned.data, bytes.data(), bytes.size());
      host->ops().copy(host->stream(), pinned, whole_bytes(x));
      host->stream_->synchronize();
    } else {
      std::memcpy(x.data, bytes.data(), bytes.size());
    }
  }

  /// A hash (FNV-1a) of all tensors made so far, in their order.
  std::uint64_t hash_of_memory() {
    std::uint64_t hash = 0xcbf29ce484222325;
    for (const Buffer& buffer : buffers_) {
      const auto bytes = static_cast<std::int64_t>(buffer.bytes());
      // Bytes have no type of their own; so many two-byte numbers hold them all.
      for (const std::byte b : bytes_of(buffer.view(DType::bf16, {bytes / 2}))) {
        hash = (hash ^ static_cast<unsigned char>(b)) * 0x100000001b3;
      }
    }
    return hash;
  }

 private:
  static std::vector<Host*>& hosts() {
    static thread_local std::vector<Host*> hosts;
    return hosts;
  }

  /// The host of this thread that must be asked for a tensor's elements; null if its pointer may be
  /// followed.
  static Host* owner_of(const Tensor& x) {
    const auto* data = static_cast<const std::byte*>(x.data);
    for (Host* host : hosts()) {
      if (host->device_->host_reads_memory()) continue;
      for (const Buffer& buffer : host->buffers_) {
        const auto* begin = static_cast<const std::byte*>(buffer.data());
        if (std::less_equal<>()(begin, data) && std::less<>()(data, begin + buffer.bytes())) {
          return host;
        }
      }
    }
    return nullptr;
  }

  static Tensor whole_bytes(const Tensor& x) {
    return {x.data, DType::bf16, {static_cast<std::int64_t>(x.num_bytes() / 2)}};
  }

  Tensor pinned(std::size_t bytes) {
    if (pinned_.bytes() < bytes) pinned_ = device_->allocate(bytes, MemoryKind::pinned);
    return pinned_.view(DType::bf16, {static_cast<std::int64_t>(bytes / 2)});
  }

  void* not_a_number(std::size_t bytes) {
    return output(DType::bf16, {static_cast<std::int64_t>((bytes + 1) / 2)}).data;
  }

  std::unique_ptr<Device> device_;
  std::unique_ptr<Stream> stream_;
  std::vector<Buffer> buffers_;
  Buffer pinned_;
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
  return Host::bytes_of(a) == Host::bytes_of(b);
}

/// Tolerance for the error of a few roundings to dtype.
inline double tolerance_of(DType dtype) {
  return dtype == DType::f32 ? 2e-6 : 1.2e-2;
}

/// Calls body(dtype, host) for both dtypes and for every way to run. If all ways must give equal
/// bits, fails unless all of them leave the same in the tensors that the body made.
template <typename Body>
void for_each_setup(const Body& body) {
  std::map<DType, std::uint64_t> hashes;
  for_each_way([&](const std::string& name, const MakeDevice& make) {
    for (const DType dtype : {DType::f32, DType::bf16}) {
      BOOST_TEST_CONTEXT(name_of(dtype) << ", " << name) {
        Host host(make());
        body(dtype, host);
        if (!ways_give_equal_bits()) continue;
        const std::uint64_t hash = host.hash_of_memory();
        BOOST_TEST(hash == hashes.emplace(dtype, hash).first->second,
                   "the bits depend on the way to run");
      }
    }
  });
}

}  // namespace troupe::tensor
