// Copies between a device and the host: on a device whose memory the host cannot touch, and whose
// streams run at the same time, in pieces; on the CPU none but those that are asked for.

#include "tensor/device/host_copies.h"

#include <boost/test/unit_test.hpp>
#include <numeric>
#include <thread>
#include <vector>

#include "tensor/device/ops.h"
#include "tests/support/async_device.h"
#include "tests/support/seed.h"

BOOST_AUTO_TEST_SUITE(host_copies_test)

using namespace troupe;
using namespace troupe::tensor;
using test::AsyncDevice;

namespace {

// Three pieces of 4 MiB, the last one not whole.
constexpr std::int64_t kElements = (std::int64_t{10} << 20) / sizeof(float) + 3;
constexpr std::size_t kBytes = kElements * sizeof(float);

std::vector<float> numbers(float first, std::int64_t count = kElements) {
  std::vector<float> all(static_cast<std::size_t>(count));
  std::iota(all.begin(), all.end(), first);
  return all;
}
Tensor view(std::vector<float>& x) {
  return {x.data(), DType::f32, {static_cast<std::int64_t>(x.size())}};
}
std::vector<float> content(const Tensor& x) {
  const Tensor host = test::opened(x);
  return {host.as<float>(), host.as<float>() + host.num_elements()};
}

}  // namespace

BOOST_AUTO_TEST_CASE(what_is_written_is_read_again) {
  for (const std::int64_t count : {std::int64_t{1}, std::int64_t{1000}, kElements}) {
    AsyncDevice device(test::fresh_seed());
    const Buffer memory = device.allocate(kBytes, MemoryKind::device);
    const Tensor x = memory.view(DType::f32, {count});
    HostCopies copies(device);
    auto from = numbers(1, count);
    const auto expected = from;
    copies.write(view(from), x);
    std::fill(from.begin(), from.end(), -1.0f);  // it is free again
    copies.synchronize();
    BOOST_TEST((content(x) == expected));
    std::vector<float> out(expected.size());
    copies.read(x, view(out));
    BOOST_TEST((out == expected));
    BOOST_TEST((content(copies.on_host(x)) == expected));
  }
}

BOOST_AUTO_TEST_CASE(host_memory_that_is_filled_becomes_the_tensor) {
  AsyncDevice device(test::fresh_seed());
  const Buffer a = device.allocate(kBytes, MemoryKind::device);
  const Buffer b = device.allocate(kBytes, MemoryKind::device);
  HostCopies copies(device);
  for (const Buffer* buffer : {&a, &b})
    copies.fill(buffer->view(DType::f32, {kElements}), [&](const Tensor& host) {
      std::iota(host.as<float>(), host.as<float>() + kElements, buffer == &a ? 0.0f : 7.0f);
    });
  copies.synchronize();
  BOOST_TEST((content(a.view(DType::f32, {kElements})) == numbers(0)));
  BOOST_TEST((content(b.view(DType::f32, {kElements})) == numbers(7)));
}

// Many rows a piece, the last of which has fewer, and rows that no piece holds.
BOOST_AUTO_TEST_CASE(rows_are_filled_a_piece_at_a_time) {
  for (const std::int64_t columns : {std::int64_t{1000}, kElements / 2}) {
    AsyncDevice device(test::fresh_seed());
    const Buffer memory = device.allocate(kBytes, MemoryKind::device);
    const std::int64_t rows = kElements / columns;
    const Tensor x = memory.view(DType::f32, {rows, columns});
    HostCopies copies(device);
    std::int64_t next = 0;
    copies.fill_rows(x, [&](const Tensor& host, std::int64_t row) {
      BOOST_TEST(row == next);
      BOOST_TEST(host.shape[1] == columns);
      next += host.shape[0];
      std::iota(host.as<float>(), host.as<float>() + host.num_elements(),
                static_cast<float>(row * columns));
    });
    copies.synchronize();
    BOOST_TEST(next == rows);
    BOOST_TEST((content(x) == numbers(0, rows * columns)));
  }
}

BOOST_AUTO_TEST_CASE(each_thread_copies_beside_the_others) {
  AsyncDevice device(test::fresh_seed());
  std::vector<std::thread> threads;
  std::vector<std::vector<float>> found(3);
  for (std::size_t i = 0; i < found.size(); ++i)
    threads.emplace_back([&, i] {
      const Buffer memory = device.allocate(kBytes, MemoryKind::device);
      HostCopies copies(device);
      auto from = numbers(static_cast<float>(i));
      copies.write(view(from), memory.view(DType::f32, {kElements}));
      copies.synchronize();
      found[i] = content(copies.on_host(memory.view(DType::f32, {kElements})));
    });
  for (std::thread& thread : threads) thread.join();
  for (std::size_t i = 0; i < found.size(); ++i)
    BOOST_TEST((found[i] == numbers(static_cast<float>(i))));
}

BOOST_AUTO_TEST_CASE(a_tensor_that_the_host_reads_stands_for_itself) {
  const auto device = make_cpu_device(1);
  const Buffer memory = device->allocate(kBytes, MemoryKind::device);
  const Tensor x = memory.view(DType::f32, {kElements});
  HostCopies copies(*device);
  copies.fill(x, [&](const Tensor& host) {
    BOOST_TEST(host.data == x.data);
    std::iota(host.as<float>(), host.as<float>() + kElements, 5.0f);
  });
  BOOST_TEST(copies.on_host(x).data == x.data);
  std::vector<float> out(kElements);
  copies.read(x, view(out));
  BOOST_TEST((out == numbers(5)));
  auto from = numbers(9);
  copies.write(view(from), x);
  BOOST_TEST((content(x) == numbers(9)));
}

BOOST_AUTO_TEST_SUITE_END()
