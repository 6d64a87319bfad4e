// The asynchronous device of tests catches what it is there for: host code that follows a device
// pointer dies, and what is read before its op has run is not there yet.

#include "tests/support/async_device.h"

#include <sys/wait.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <functional>
#include <future>
#include <stdexcept>

#include "tensor/device/ops.h"
#include "tests/support/expect_error.h"
#include "tests/support/seed.h"

BOOST_AUTO_TEST_SUITE(async_device_test)

using namespace troupe;
using namespace troupe::tensor;
using test::AsyncDevice;

namespace {

/// Whether a process that does this dies of it.
bool kills(const std::function<void()>& body) {
  const pid_t child = ::fork();
  if (child == 0) {
    std::signal(SIGSEGV, SIG_DFL);  // not what Boost or a sanitizer would do
    body();
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return status != 0;
}

}  // namespace

BOOST_AUTO_TEST_CASE(host_code_that_follows_a_device_pointer_dies) {
  AsyncDevice device(test::fresh_seed());
  const Buffer memory = device.allocate(1 << 20, MemoryKind::device);
  const Tensor x = memory.view(DType::f32, {1000}, 256);
  BOOST_TEST(!kills([&] { *test::opened(x).as<volatile float>() = 1; }));
  BOOST_TEST(kills([&] { *x.as<volatile float>() = 1; }));
  BOOST_TEST(kills([&] { static_cast<void>(x.as<volatile float>()[999]); }));
  BOOST_TEST(kills([&] {
    float copy[1000];
    std::memcpy(copy, x.data, sizeof copy);
    static_cast<void>(*static_cast<volatile float*>(copy));
  }));
  int pipe[2];
  BOOST_REQUIRE(::pipe(pipe) == 0);
  BOOST_TEST(::write(pipe[1], x.data, 4) == -1);
  BOOST_TEST(errno == EFAULT);
  ::close(pipe[0]);
  ::close(pipe[1]);
  for (const MemoryKind kind : {MemoryKind::host, MemoryKind::pinned}) {
    const Buffer host = device.allocate(100, kind);
    BOOST_TEST(!kills([&] { *static_cast<volatile char*>(host.data()) = 1; }));
  }
}

BOOST_AUTO_TEST_CASE(an_op_runs_after_its_call_and_tells_when) {
  AsyncDevice device(test::fresh_seed());
  const auto stream = device.make_stream(), other = device.make_stream();
  const auto gate = device.make_event(), end = device.make_timed_event();
  const Buffer memory = device.allocate(400, MemoryKind::device);
  const Buffer host = device.allocate(400, MemoryKind::pinned);
  const Tensor x = memory.view(DType::f32, {100}), y = host.view(DType::f32, {100});
  y.as<float>()[99] = 3;

  std::promise<void> open;
  static_cast<test::AsyncStream&>(*other).submit([&] { open.get_future().wait(); });
  gate->record(*other);
  gate->wait(*stream);
  device.ops().copy(*stream, y, x);
  end->record(*stream);
  std::promise<void> called;
  end->on_reached([](void* promise) { static_cast<std::promise<void>*>(promise)->set_value(); },
                  &called);
  BOOST_TEST(!end->done());
  BOOST_TEST(test::opened(x).as<float>()[99] == 0);
  open.set_value();
  end->synchronize();
  called.get_future().wait();
  BOOST_TEST(test::opened(x).as<float>()[99] == 3);
  BOOST_TEST(end->reached_s() > 0);
  bool again = false;
  end->on_reached([](void* flag) { *static_cast<bool*>(flag) = true; }, &again);
  BOOST_TEST(again);
}

BOOST_AUTO_TEST_CASE(after_an_op_that_fails_nothing_runs_and_every_call_says_so) {
  AsyncDevice device(test::fresh_seed(), 1, [](std::uint64_t op) { return op == 3; });
  const auto stream = device.make_stream();
  const auto second = device.make_event(), last = device.make_event();
  const Buffer memory = device.allocate(40, MemoryKind::device);
  const Buffer host = device.allocate(40, MemoryKind::pinned);
  const Tensor x = memory.view(DType::f32, {10}), y = host.view(DType::f32, {10});
  bool called = false;
  std::promise<void> open;  // all is queued before anything runs
  y.as<float>()[0] = 1;
  static_cast<test::AsyncStream&>(*stream).submit([&] { open.get_future().wait(); });
  device.ops().copy(*stream, y, x);
  second->record(*stream);
  device.ops().fill_zero(*stream, x);
  device.ops().fill_zero(*stream, x);
  last->record(*stream);
  last->on_reached([](void* flag) { *static_cast<bool*>(flag) = true; }, &called);
  open.set_value();
  const auto is_told = [](const std::function<void()>& call) {
    test::expect_error(ErrorKind::internal, {"the asynchronous device failed in op 3"}, call);
  };
  is_told([&] { last->synchronize(); });
  is_told([&] { stream->synchronize(); });
  is_told([&] { second->done(); });
  is_told([&] { second->record(*stream); });
  is_told([&] { device.ops().fill_zero(*stream, x); });
  BOOST_TEST(!called);
  BOOST_TEST(test::opened(x).as<float>()[0] == 1);
}

BOOST_AUTO_TEST_CASE(an_op_uses_no_host_memory_that_is_not_pinned) {
  AsyncDevice device(test::fresh_seed(), 1, {}, test::HostMemory::pinned);
  const auto stream = device.make_stream();
  const Buffer memory = device.allocate(400, MemoryKind::device),
               pinned = device.allocate(400, MemoryKind::pinned),
               plain = device.allocate(400, MemoryKind::host);
  const auto copy = [&](const Buffer& from, std::size_t offset = 0) {
    device.ops().copy(*stream, from.view(DType::f32, {50}, offset), memory.view(DType::f32, {50}));
    stream->synchronize();
  };
  copy(pinned, 200);
  BOOST_CHECK_THROW(copy(plain), std::logic_error);
  BOOST_TEST(device.pin(plain.data(), 396));
  copy(plain, 196);
  BOOST_CHECK_THROW(copy(plain, 200), std::logic_error);
  device.unpin(plain.data());
  BOOST_CHECK_THROW(copy(plain), std::logic_error);
}

BOOST_AUTO_TEST_CASE(devices_share_memory_by_a_descriptor) {
  AsyncDevice device(test::fresh_seed()), other(test::fresh_seed());
  SharedMemory shared = device.share(400);
  BOOST_TEST_REQUIRE(static_cast<bool>(shared));
  const Buffer mapped = other.map(shared.descriptor(), 400);
  BOOST_TEST(test::is_guarded(shared.memory().data()));
  BOOST_TEST(test::is_guarded(mapped.data()));
  *test::opened(mapped.view(DType::f32, {100})).as<float>() = 7;
  BOOST_TEST(*test::opened(shared.memory().view(DType::f32, {100})).as<float>() == 7);
  shared = {};
  BOOST_TEST(*test::opened(mapped.view(DType::f32, {100})).as<float>() == 7);
  BOOST_TEST(other.map(-1, 400).data() == nullptr);
}

BOOST_AUTO_TEST_SUITE_END()
