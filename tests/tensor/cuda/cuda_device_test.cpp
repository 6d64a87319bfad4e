#include "tensor/cuda/cuda_device.h"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "tensor/cuda/attention/cudnn_attention.h"
#include "tensor/cuda/attention/cudnn_document_attention.h"
#include "tensor/cuda/attention/kernel_attention.h"
#include "tensor/errors/error.h"
#include "tests/host_cudart/driver_memory.h"
#include "tests/host_cudart/host_cudart.h"
#include "tests/support/host_cudnn.h"

// The device over a runtime on the host, whose streams run when they are told to. The second GPU is
// used, so that a call that forgot to choose it is refused.

namespace troupe::tensor::cuda {

BOOST_AUTO_TEST_SUITE(cuda_device_test)

namespace {

using test::HostCudart;
using test::HostCudnn;
using test::HostDriverMemory;

struct Fixture {
  HostCudart& host = HostCudart::reset();
  HostCudnn& cudnn = HostCudnn::reset();
  std::vector<std::string> told;
  CudaDevice device{{.kind = DeviceKind::cuda, .index = 1},
                    [this](const std::string& what) { told.push_back(what); }};
};

/// A GPU of whose memory another process has half.
struct Endings {
  Endings() { host.used_by_others = std::size_t{512} << 20; }
  std::function<void(const std::string&)> tell() {
    return [this](const std::string& what) { told.push_back(what); };
  }

  HostCudart& host = HostCudart::reset();
  std::vector<std::string> told;
  int refusals = 0;
};

bool fails_with(ErrorKind kind, const std::vector<std::string>& parts,
                const std::function<void()>& act) {
  try {
    act();
    return false;
  } catch (const Error& error) {
    BOOST_TEST_MESSAGE(error.what());
    return error.kind() == kind && std::ranges::all_of(parts, [&](const std::string& part) {
             return std::string(error.what()).find(part) != std::string::npos;
           });
  }
}

void count(void* calls) {
  ++*static_cast<int*>(calls);
}

BOOST_FIXTURE_TEST_CASE(memory_is_zero_and_aligned_when_it_is_given, Fixture) {
  for (const MemoryKind kind : {MemoryKind::device, MemoryKind::pinned, MemoryKind::host}) {
    for (const std::size_t bytes : {0, 1, 255, 70000}) {
      const Buffer buffer = device.allocate(bytes, kind);
      const auto* const data = static_cast<const unsigned char*>(buffer.data());
      BOOST_TEST_REQUIRE(data != nullptr);
      BOOST_TEST(std::count(data, data + bytes, 0) == static_cast<std::ptrdiff_t>(bytes));
      BOOST_TEST(reinterpret_cast<std::uintptr_t>(data) % 64 == 0u);
      BOOST_TEST(buffer.bytes() == bytes);
      BOOST_TEST((buffer.kind() == kind));
    }
  }
  BOOST_TEST(host.used == 0u);
  BOOST_TEST(!device.host_reads_memory());
}

BOOST_FIXTURE_TEST_CASE(a_lack_of_memory_is_told_with_its_numbers, Fixture) {
  const Buffer held = device.allocate(std::size_t{1000} << 20, MemoryKind::device);
  BOOST_TEST(device.memory().used == held.bytes());
  BOOST_TEST(device.memory().total == host.memory);
  BOOST_TEST(fails_with(ErrorKind::internal, {"GPU 1 (Host GPU)", "100.0 MiB", "1000.0", "1024.0"},
                        [&] { device.allocate(std::size_t{100} << 20, MemoryKind::device); }));
  device.allocate(1 << 20, MemoryKind::device);  // as if nothing had been asked for
}

BOOST_FIXTURE_TEST_CASE(an_allocation_waits_for_the_memory_of_a_process_that_ended, Endings) {
  CudaDevice device({.kind = DeviceKind::cuda, .index = 1}, tell());
  const Buffer held = device.allocate(std::size_t{500} << 20, MemoryKind::device);
  host.on_full = [this] {
    if (++refusals == 2) host.used_by_others = 0;
  };
  BOOST_CHECK_NO_THROW(device.allocate(std::size_t{200} << 20, MemoryKind::device));
  BOOST_TEST(refusals == 2);
  BOOST_TEST_REQUIRE(told.size() == 1u);
  for (const char* part : {"GPU 1 (Host GPU)", "200.0 MiB", "10 s", "other processes"})
    BOOST_TEST(told.front().find(part) != std::string::npos, told.front() << " lacks " << part);
}

BOOST_FIXTURE_TEST_CASE(an_allocation_waits_no_longer_than_its_patience, Endings) {
  GpuMemory memory("GPU 1", tell(), std::chrono::milliseconds(120));
  host.on_full = [this] { ++refusals; };
  for (int call = 0; call < 2; ++call)
    BOOST_TEST(fails_with(ErrorKind::internal, {"GPU 1", "600.0", "0.15 s", "other processes"},
                          [&] { memory.allocate(std::size_t{600} << 20); }));
  BOOST_TEST(refusals == 5);  // three waits in the first call, none in the second
  BOOST_TEST(told.size() == 1u);
  // More than others could give back.
  BOOST_TEST(fails_with(ErrorKind::internal, {"2000.0"},
                        [&] { memory.allocate(std::size_t{2000} << 20); }));
  BOOST_TEST(refusals == 6);
}

BOOST_FIXTURE_TEST_CASE(an_event_is_done_when_its_stream_came_to_the_mark, Fixture) {
  const auto stream = device.make_stream();
  const auto event = device.make_event();
  BOOST_TEST(event->done());  // there is no mark
  event->record(*stream);
  BOOST_TEST(!event->done());
  host.run();
  BOOST_TEST(event->done());
  event->record(*stream);
  BOOST_TEST(!event->done());
  event->synchronize();
  BOOST_TEST(event->done());
}

BOOST_FIXTURE_TEST_CASE(a_call_comes_once_when_the_latest_mark_is_reached, Fixture) {
  const auto stream = device.make_stream();
  const auto event = device.make_event();
  int calls = 0;
  event->on_reached(count, &calls);
  BOOST_TEST(calls == 1);  // there is no mark
  event->record(*stream);
  event->on_reached(count, &calls);
  event->record(*stream);  // a later mark is none of that call's
  BOOST_TEST(calls == 1);
  host.run();
  BOOST_TEST(calls == 2);
  event->on_reached(count, &calls);
  BOOST_TEST(calls == 3);
  host.run();
  BOOST_TEST(calls == 3);
}

BOOST_FIXTURE_TEST_CASE(a_call_still_comes_when_its_stream_is_gone, Fixture) {
  auto stream = device.make_stream();
  const auto event = device.make_event();
  int calls = 0;
  event->record(*stream);
  event->on_reached(count, &calls);
  stream.reset();  // waits for its ops
  host.run();
  BOOST_TEST(calls == 1);
}

BOOST_FIXTURE_TEST_CASE(a_stream_waits_for_the_mark_of_another, Fixture) {
  const auto first = device.make_stream(), second = device.make_stream();
  const auto mark = device.make_event(), end = device.make_event();
  mark->wait(*second);  // no mark, no wait
  mark->record(*first);
  mark->wait(*second);
  end->record(*second);
  BOOST_TEST(!end->done());
  second->synchronize();
  BOOST_TEST(mark->done());
  BOOST_TEST(end->done());
}

BOOST_FIXTURE_TEST_CASE(times_of_marks_are_those_of_the_gpu, Fixture) {
  const auto stream = device.make_stream();
  const auto first = device.make_timed_event(), second = device.make_timed_event();
  first->record(*stream);
  host.stamp_ms = 5;
  host.run();
  second->record(*stream);
  host.stamp_ms = 12.5;
  host.run();
  BOOST_TEST(std::abs(second->reached_s() - first->reached_s() - 7.5e-3) < 1e-9);
}

// As where its stream shares a queue with one that computes: the mark comes when that has run.
BOOST_FIXTURE_TEST_CASE(the_clock_goes_by_an_older_moment_until_the_gpu_has_come_to_a_new_one,
                        Fixture) {
  DeviceClock clock(0);
  const auto first = clock.reference();
  BOOST_TEST(first->host_s > 0);
  BOOST_TEST(clock.reference() == first);
  BOOST_TEST(clock.reference() == first);
  host.run();
  const auto second = clock.reference();
  BOOST_TEST(second != first);
  BOOST_TEST(second->host_s >= first->host_s);
  BOOST_TEST(clock.reference() == second);
  host.run();  // the mark that is under way is reached, too
}

BOOST_FIXTURE_TEST_CASE(scratch_memory_grows_when_nothing_uses_it, Fixture) {
  const auto stream = device.make_stream();
  auto& kernels = static_cast<KernelStream&>(*stream);
  const auto event = device.make_event();
  void* const first = kernels.scratch(1000);
  event->record(*stream);  // stands for an op that works in it
  BOOST_TEST(kernels.scratch(2000) == first);
  BOOST_TEST(!event->done());
  BOOST_TEST(kernels.scratch(std::size_t{8} << 20) != nullptr);  // freeing it earlier would abort
  BOOST_TEST(event->done());
  BOOST_TEST(kernels.scratch(1) != nullptr);
}

BOOST_FIXTURE_TEST_CASE(every_thread_uses_the_devices_own_gpu, Fixture) {
  const auto stream = device.make_stream();
  const auto event = device.make_event(), timed = device.make_timed_event();
  int calls = 0;
  const auto in_a_new_thread = [](const std::function<void()>& act) { std::thread(act).join(); };
  in_a_new_thread([&] { event->record(*stream); });
  in_a_new_thread([&] { timed->record(*stream); });
  in_a_new_thread([&] { BOOST_TEST(!event->done()); });
  in_a_new_thread([&] { event->on_reached(count, &calls); });
  in_a_new_thread([&] { event->wait(*stream); });
  in_a_new_thread([&] { event->synchronize(); });
  in_a_new_thread([&] { stream->synchronize(); });
  in_a_new_thread([&] { timed->reached_s(); });
  in_a_new_thread([&] { device.make_stream()->synchronize(); });
  in_a_new_thread([&] { device.allocate(10, MemoryKind::device); });
  host.run();
  BOOST_TEST(calls == 1);
}

BOOST_FIXTURE_TEST_CASE(any_other_fault_ends_the_process_with_its_call_and_reason, Fixture) {
  const auto stream = device.make_stream();
  const auto event = device.make_event();
  host.next_record = cudaErrorIllegalAddress;
  BOOST_TEST(
      fails_with(ErrorKind::internal,
                 {"cudaEventRecord", "700", "an illegal memory access was encountered", "ends"},
                 [&] { event->record(*stream); }));
}

BOOST_AUTO_TEST_CASE(a_gpu_that_is_not_there_or_of_another_kind_is_refused) {
  HostCudart& host = HostCudart::reset();
  const auto make = [](int index) {
    CudaDevice({.kind = DeviceKind::cuda, .index = index}, [](const std::string&) {});
  };
  BOOST_TEST(fails_with(ErrorKind::unavailable, {"no GPU 2", "2"}, [&] { make(2); }));
  for (const int major : {7, 11}) {
    host.major = major;
    const std::string has = "compute capability " + std::to_string(major) + ".0";
    BOOST_TEST(
        fails_with(ErrorKind::unavailable, {"Host GPU", has, "8.0 (Ampere"}, [&] { make(0); }));
  }
  for (const int major : {8, 9, 10, 12, 13}) {
    host.major = major;
    BOOST_CHECK_NO_THROW(make(0));
  }
}

constexpr AttentionShape kShape{
    .batch = 2, .seq_len = 64, .heads = 4, .kv_heads = 2, .head_dim = 128, .dtype = DType::bf16};

BOOST_FIXTURE_TEST_CASE(layers_of_one_shape_share_two_plans, Fixture) {
  for (int layer = 0; layer < 3; ++layer) {
    AttentionShape shape = kShape;
    shape.first_head = layer;  // of no account for a plan
    const auto attention = device.make_attention(shape);
    BOOST_TEST(dynamic_cast<CudnnAttention*>(attention.get()) != nullptr);
  }
  BOOST_TEST(cudnn.plans == 2);
  AttentionShape longer = kShape;
  longer.seq_len *= 2;
  device.make_attention(longer);
  BOOST_TEST(cudnn.plans == 4);
  BOOST_TEST(told.empty());
}

BOOST_FIXTURE_TEST_CASE(a_refusal_of_cudnn_is_told_once_with_its_shape, Fixture) {
  cudnn.refusal = [](const AttentionShape& shape, AttentionPass pass, bool deterministic) {
    const bool refused = pass == AttentionPass::backward && deterministic && shape.head_dim > 128;
    return std::string(refused ? "no engine for it" : "");
  };
  AttentionShape wide = kShape;
  wide.head_dim = 256;
  for (int layer = 0; layer < 3; ++layer) {
    const auto attention = device.make_attention(wide);
    BOOST_TEST(dynamic_cast<KernelAttention*>(attention.get()) != nullptr);
  }
  BOOST_TEST(cudnn.plans == 2);
  BOOST_TEST_REQUIRE(told.size() == 1u);
  for (const char* part : {"4 heads of 256", "64 tokens", "deterministic backward",
                           "our own kernels", "no engine for it"})
    BOOST_TEST(told.front().find(part) != std::string::npos, told.front() << " lacks " << part);
  device.make_attention(kShape);
  AttentionShape single = wide;
  single.dtype = DType::f32;  // of which cuDNN is not even asked
  device.make_attention(single);
  BOOST_TEST(told.size() == 1u);
  BOOST_TEST(cudnn.plans == 4);
}

BOOST_FIXTURE_TEST_CASE(documents_have_plans_of_their_own_or_are_told_of_once, Fixture) {
  cudnn.refusal = [](const AttentionShape& shape, AttentionPass pass, bool) {
    const bool refused = pass == AttentionPass::backward && shape.documents && shape.heads == 8;
    return std::string(refused ? "no backward of packed rows" : "");
  };
  AttentionShape documents = kShape;
  documents.documents = true;
  for (int layer = 0; layer < 2; ++layer) {
    const auto attention = device.make_attention(documents);
    BOOST_TEST(dynamic_cast<CudnnDocumentAttention*>(attention.get()) != nullptr);
    const auto whole = device.make_attention(kShape);
    BOOST_TEST(dynamic_cast<CudnnAttention*>(whole.get()) != nullptr);
  }
  BOOST_TEST(cudnn.plans == 4);
  BOOST_TEST(told.empty());
  documents.heads = 8;
  for (int layer = 0; layer < 2; ++layer) {
    const auto attention = device.make_attention(documents);
    BOOST_TEST(dynamic_cast<KernelAttention*>(attention.get()) != nullptr);
  }
  BOOST_TEST_REQUIRE(told.size() == 1u);
  for (const char* part : {"2 documents of up to 64 tokens", "8 heads of 128", "our own kernels",
                           "no backward of packed rows"})
    BOOST_TEST(told.front().find(part) != std::string::npos, told.front() << " lacks " << part);
}

/// Memory that a device shares, and another one maps, as another process would.
struct Sharing : Fixture {
  HostDriverMemory& driver = HostDriverMemory::reset();
  CudaDevice other{{.kind = DeviceKind::cuda, .index = 0}, [](const std::string&) {}};
};

BOOST_FIXTURE_TEST_CASE(memory_is_shared_by_a_descriptor, Sharing) {
  {
    SharedMemory shared = device.share(1000);
    BOOST_TEST_REQUIRE(static_cast<bool>(shared));
    BOOST_TEST(shared.memory().bytes() >= 1000u);
    BOOST_TEST((shared.memory().kind() == MemoryKind::device));
    auto* const data = static_cast<unsigned char*>(shared.memory().data());
    BOOST_TEST(std::count(data, data + 1000, 0) == 1000);
    const Buffer mapped = other.map(shared.descriptor(), 1000);
    BOOST_TEST_REQUIRE(mapped.data() != nullptr);
    BOOST_TEST(mapped.data() != shared.memory().data());
    static_cast<unsigned char*>(mapped.data())[999] = 7;
    BOOST_TEST(data[999] == 7);
    shared = {};  // its owner has died
    BOOST_TEST(static_cast<unsigned char*>(mapped.data())[999] == 7);
  }
  BOOST_TEST(driver.allocations == 0);
  BOOST_TEST(driver.mappings == 0);
  BOOST_TEST(driver.addresses == 0);
}

BOOST_FIXTURE_TEST_CASE(what_cannot_be_shared_or_mapped_is_no_error, Sharing) {
  driver.has_functions = false;
  BOOST_TEST(!device.share(1000));
  driver.has_functions = true;
  const SharedMemory shared = device.share(1000);
  BOOST_TEST(other.map(-1, 1000).data() == nullptr);
  BOOST_TEST(other.map(shared.descriptor(), std::size_t{3} << 20).data() == nullptr);
  driver.gives_access = false;
  BOOST_TEST(other.map(shared.descriptor(), 1000).data() == nullptr);
  BOOST_TEST(!device.share(1000));
  BOOST_TEST(driver.mappings == 1);
  BOOST_TEST(driver.addresses == 1);
  BOOST_TEST(driver.allocations == 0);
}

BOOST_FIXTURE_TEST_CASE(whole_pages_of_foreign_memory_are_pinned_once, Fixture) {
  const Buffer memory = device.allocate(std::size_t{4} << 20, MemoryKind::host);
  auto* const data = static_cast<std::byte*>(memory.data());
  BOOST_TEST(device.pin(data + 64, 10'000));
  BOOST_TEST(!device.pin(data, 10));
  device.unpin(data + 64);
  BOOST_TEST(device.pin(data, 10));
  device.unpin(data);
}

}  // namespace

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::tensor::cuda
