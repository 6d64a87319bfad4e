#pragma once

#include <boost/test/unit_test.hpp>
#include <cstdint>
#include <cstring>
#include <exception>
#include <functional>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "tensor/device/device.h"
#include "tensor/device/process_group.h"
#include "tests/support/test_device.h"

// A group for tests, and numbers for its collectives.

namespace troupe::test {

/// A member's thread: its group, and the stream of its calls.
struct GroupMember {
  int number = 0;
  tensor::ProcessGroup& group;
  tensor::Stream& stream;
};

/// A stream for calls of one thread, and its device.
struct MemberStream {
  explicit MemberStream(std::unique_ptr<tensor::Device> of = make_test_device())
      : device(std::move(of)) {}
  operator tensor::Stream&() const { return *stream; }

  std::unique_ptr<tensor::Device> device;
  std::unique_ptr<tensor::Stream> stream = device->make_stream();
};

/// A group with a thread and a device for each member.
class MemberThreads {
 public:
  using MakeDevice = std::function<std::unique_ptr<tensor::Device>()>;
  explicit MemberThreads(
      int size, const MakeDevice& make = [] { return make_test_device(); }) {
    for (int i = 0; i < size; ++i) devices_.emplace_back(make());
  }

  GroupMember member(std::size_t number) {
    return {static_cast<int>(number), *groups[number], devices_[number]};
  }

  /// Runs `body` as every member, and throws the exception of any of them.
  void run(const std::function<void(const GroupMember& self)>& body) {
    std::vector<std::exception_ptr> errors(groups.size());
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < groups.size(); ++i) {
      threads.emplace_back([&, i] {
        try {
          body(member(i));
        } catch (...) {
          errors[i] = std::current_exception();
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (const std::exception_ptr& error : errors)
      if (error) std::rethrow_exception(error);
  }
  /// Runs `body` as every member. Returns whether it was true for all of them.
  bool all(const std::function<bool(const GroupMember& self)>& body) {
    std::vector<int> answers(groups.size());
    run([&](const GroupMember& self) {
      answers[static_cast<std::size_t>(self.number)] = body(self);
    });
    for (const int answer : answers)
      if (!answer) return false;
    return true;
  }

  tensor::Device& device(std::size_t number) { return *devices_[number].device; }

 private:
  std::vector<MemberStream> devices_;  // before the groups, which use them to their end

 public:
  std::vector<std::unique_ptr<tensor::ProcessGroup>> groups;  ///< by member
};

template <typename T>
struct DTypeOf;
template <>
struct DTypeOf<float> {
  static constexpr auto value = tensor::DType::f32;
};
template <>
struct DTypeOf<double> {
  static constexpr auto value = tensor::DType::f64;
};
template <>
struct DTypeOf<tensor::BFloat16> {
  static constexpr auto value = tensor::DType::bf16;
};
template <>
struct DTypeOf<std::int32_t> {
  static constexpr auto value = tensor::DType::i32;
};
template <>
struct DTypeOf<std::int64_t> {
  static constexpr auto value = tensor::DType::i64;
};

template <typename T>
tensor::Tensor view(std::vector<T>& values) {
  return {values.data(), DTypeOf<T>::value,
          tensor::Shape{static_cast<std::int64_t>(values.size())}};
}
/// The elements [begin, begin + size) of `values`.
template <typename T>
tensor::Tensor view(std::vector<T>& values, std::size_t begin, std::size_t size) {
  return {values.data() + begin, DTypeOf<T>::value, tensor::Shape{static_cast<std::int64_t>(size)}};
}

template <typename T>
T element_of(double x) {
  if constexpr (std::is_same_v<T, tensor::BFloat16>)
    return tensor::to_bfloat16(static_cast<float>(x));
  else
    return static_cast<T>(x);
}

/// Values of very different sizes: any other order of summation gives other bits.
template <typename T>
std::vector<T> values_of(std::uint64_t seed, int member, std::size_t count) {
  std::uint64_t state = seed * 1000 + static_cast<std::uint64_t>(member) + 1;
  std::vector<T> values(count);
  for (T& value : values) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    const int exponent = static_cast<int>((state >> 40) % 20);
    value = element_of<T>((static_cast<std::int32_t>(state >> 32) >> exponent) / 1024.0);
  }
  return values;
}

template <typename T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}

/// The sum of every element if member m has m + 1 in each.
inline float sum_of_members(int size) {
  return static_cast<float>(size * (size + 1) / 2);
}
inline std::vector<float> numbered(const GroupMember& self, std::size_t count) {
  return std::vector<float>(count, static_cast<float>(self.number + 1));
}

/// Calls body(size, count) for groups of 1 to 4 members and each number of elements.
template <typename Counts, typename Body>
void for_each_size(const Counts& counts, const Body& body) {
  for (int size = 1; size <= 4; ++size)
    for (const int count : counts)
      BOOST_TEST_CONTEXT(size << " members, " << count << " elements") {
        body(size, static_cast<std::size_t>(count));
      }
}

/// Elements [begin, begin + size) of a vector.
template <typename T>
std::vector<T> slice_of(const std::vector<T>& values, std::size_t begin, std::size_t size) {
  const auto first = values.begin() + static_cast<std::ptrdiff_t>(begin);
  return {first, first + static_cast<std::ptrdiff_t>(size)};
}

}  // namespace troupe::test
