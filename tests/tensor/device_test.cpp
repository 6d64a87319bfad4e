#include "tensor/device/device.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <limits>
#include <vector>

#include "tensor/errors/error.h"

namespace troupe::tensor {

BOOST_AUTO_TEST_SUITE(device_test)

namespace {

BOOST_AUTO_TEST_CASE(memory_is_aligned_and_zeroed) {
  const auto device = make_cpu_device(1);
  for (const std::size_t bytes : {0, 1, 63, 64, 65, 100000, 5 << 20}) {
    for (int round = 0; round < 3; ++round) {  // memory that was used before, too
      const Buffer buffer = device->allocate(bytes, MemoryKind::host);
      BOOST_TEST(buffer.bytes() == bytes);
      BOOST_TEST(reinterpret_cast<std::uintptr_t>(buffer.data()) % 64 == 0u);
      auto* data = static_cast<unsigned char*>(buffer.data());
      BOOST_TEST(std::all_of(data, data + bytes, [](unsigned char x) { return x == 0; }));
      std::fill_n(data, bytes, 0xab);
    }
  }
}

BOOST_AUTO_TEST_CASE(a_buffer_moves_and_frees_once) {
  static int freed;
  freed = 0;
  int memory = 0;
  const auto make = [&] {
    return Buffer(&memory, 4, MemoryKind::pinned, [](void*, std::size_t) { ++freed; });
  };
  {
    Buffer first = make();
    Buffer second = std::move(first);
    BOOST_TEST(second.data() == &memory);
    BOOST_TEST((second.kind() == MemoryKind::pinned));
    BOOST_TEST(freed == 0);
    Buffer third = make();
    third = std::move(second);
    BOOST_TEST(third.data() == &memory);
  }
  BOOST_TEST(freed == 2);
}

/// The bytes of a buffer of whole pages that are in memory.
std::size_t resident(const Buffer& buffer) {
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  std::vector<unsigned char> pages(buffer.bytes() / page);
  BOOST_REQUIRE(mincore(buffer.data(), buffer.bytes(), pages.data()) == 0);
  return page * static_cast<std::size_t>(
                    std::ranges::count_if(pages, [](unsigned char x) { return x & 1; }));
}

BOOST_AUTO_TEST_CASE(memory_that_was_given_back_comes_again_zeroed) {
  const auto device = make_cpu_device(1);
  constexpr std::size_t kSize = std::size_t{4} << 20;
  const Buffer buffer = device->allocate(kSize, MemoryKind::device);
  auto* data = static_cast<unsigned char*>(buffer.data());
  for (const bool brings_back : {true, false}) {
    std::fill_n(data, kSize, 0xab);
    BOOST_TEST(resident(buffer) == kSize);
    BOOST_TEST(device->give_back(buffer) == kSize);
    BOOST_TEST(resident(buffer) == 0u);
    if (brings_back) device->bring_back(buffer);
    BOOST_TEST(resident(buffer) == (brings_back ? kSize : 0));
    BOOST_TEST(std::all_of(data, data + kSize, [](unsigned char x) { return x == 0; }));
  }
  const Buffer small = device->allocate(1000, MemoryKind::device),
               none = device->allocate(0, MemoryKind::device);
  std::fill_n(static_cast<unsigned char*>(small.data()), 1000, 0xab);
  BOOST_TEST(device->give_back(small) == 0u);
  BOOST_TEST(*static_cast<unsigned char*>(small.data()) == 0xab);
  BOOST_TEST(device->give_back(none) == 0u);
  device->bring_back(none);
}

BOOST_AUTO_TEST_CASE(a_view_starts_at_its_offset) {
  const auto device = make_cpu_device(1);
  const Buffer buffer = device->allocate(1024, MemoryKind::host);
  const Tensor view = buffer.view(DType::f32, {4, 8}, 128);
  BOOST_TEST(view.data == static_cast<std::byte*>(buffer.data()) + 128);
  BOOST_TEST(view.num_bytes() == 128u);
  BOOST_TEST(!Tensor{});
}

BOOST_AUTO_TEST_CASE(a_reserve_serves_large_allocations_until_it_is_used_up) {
  const auto device = make_cpu_device(1);
  constexpr std::size_t kSize = std::size_t{4} << 20;
  device->reserve(2 * kSize);
  std::vector<Buffer> buffers;
  for (int i = 0; i < 8; ++i) {
    buffers.push_back(device->allocate(kSize, MemoryKind::host));
    auto* const data = static_cast<unsigned char*>(buffers.back().data());
    BOOST_TEST(std::count(data, data + kSize, 0) == static_cast<std::ptrdiff_t>(kSize));
    std::fill_n(data, kSize, 0xff);
    if (i == 1) BOOST_TEST(buffers[1].data() == static_cast<std::byte*>(buffers[0].data()) + kSize);
  }
  buffers.erase(buffers.begin());
  device->reserve(0);
  BOOST_TEST(*static_cast<unsigned char*>(buffers[0].data()) == 0xff);
}

BOOST_AUTO_TEST_CASE(refuses_what_cannot_be_had) {
  BOOST_CHECK_THROW(make_cpu_device(0), Error);
  const auto device = make_cpu_device(1);
  BOOST_CHECK_THROW(device->allocate(std::numeric_limits<std::size_t>::max(), MemoryKind::host),
                    Error);
}

BOOST_AUTO_TEST_CASE(streams_and_events_are_always_done) {
  const auto device = make_cpu_device(1);
  const auto stream = device->make_stream();
  const auto event = device->make_event();
  BOOST_TEST(&stream->device() == device.get());
  event->record(*stream);
  event->wait(*stream);
  stream->synchronize();
  event->synchronize();
  BOOST_TEST(event->done());
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::tensor
