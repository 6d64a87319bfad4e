#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <vector>

#include "tensor/device/attention.h"
#include "tensor/device/device.h"
#include "tests/gpu/first_questions/child.h"
#include "tests/gpu/first_questions/questions.h"

namespace troupe::test {
namespace {

constexpr double kMiB = 1 << 20;

std::size_t free_memory() {
  std::size_t free = 0, total = 0;
  check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
  return free;
}

/// Runs `body` in a process of its own and returns the text that it makes.
std::string in_a_process(const std::function<std::string()>& body) {
  Child child([&](Line& parent) {
    const std::string text = body();
    parent.send(text.size());
    for (const char c : text) parent.send(c);
  });
  std::string text(child.line().receive<std::size_t>(), ' ');
  for (char& c : text) c = child.line().receive<char>();
  return text;
}

/// GB/s of copies between two places, counting the bytes once.
double gigabytes_per_second(void* to, const void* from, std::size_t bytes) {
  cudaStream_t stream{};
  cudaEvent_t begin{}, end{};
  check(cudaStreamCreate(&stream), "cudaStreamCreate");
  check(cudaEventCreate(&begin), "cudaEventCreate");
  check(cudaEventCreate(&end), "cudaEventCreate");
  constexpr int kTimes = 20;
  check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream), "cudaMemcpyAsync");
  check(cudaEventRecord(begin, stream), "cudaEventRecord");
  for (int i = 0; i < kTimes; ++i)
    check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream), "cudaMemcpyAsync");
  check(cudaEventRecord(end, stream), "cudaEventRecord");
  check(cudaEventSynchronize(end), "cudaEventSynchronize");
  float milliseconds = 0;
  check(cudaEventElapsedTime(&milliseconds, begin, end), "cudaEventElapsedTime");
  return static_cast<double>(bytes) * kTimes / (milliseconds * 1e6);
}

}  // namespace

std::string contexts() {
  Child first([](Line& parent) {
    check(cudaFree(nullptr), "the first call");
    parent.send(free_memory());
    parent.receive<int>();
    parent.send(free_memory());
  });
  const auto before = first.line().receive<std::size_t>();
  Child second([](Line& parent) {
    const auto begin = std::chrono::steady_clock::now();
    check(cudaFree(nullptr), "the first call");
    parent.send(seconds_since(begin));
    parent.receive<int>();
  });
  const double seconds = second.line().receive<double>();
  first.line().send(1);
  const auto after = first.line().receive<std::size_t>();
  second.line().send(1);
  return fmt::format("{:.2f} s, and {:.0f} MiB of the GPU", seconds,
                     static_cast<double>(before - after) / kMiB);
}

std::string devices() {
  return in_a_process([] {
    int count = 0;
    check(cudaGetDeviceCount(&count), "cudaGetDeviceCount");
    std::string text;
    for (int i = 0; i < count; ++i) {
      cudaDeviceProp properties{};
      check(cudaGetDeviceProperties(&properties, i), "cudaGetDeviceProperties");
      int ipc_events = 0;
      check(cudaDeviceGetAttribute(&ipc_events, cudaDevAttrIpcEventSupport, i), "the attribute");
      text += fmt::format("{}{}: {}, UUID", i > 0 ? "; " : "", i, properties.name);
      for (const char byte : properties.uuid.bytes)
        text += fmt::format(" {:02x}", static_cast<unsigned char>(byte));
      text += ipc_events != 0 ? ", shares events" : ", does not share events";
    }
    return text;
  });
}

std::string copy_bandwidth() {
  return in_a_process([] {
    constexpr std::size_t kBytes = std::size_t{256} << 20;
    void *device = nullptr, *other = nullptr, *pinned = nullptr;
    check(cudaMalloc(&device, kBytes), "cudaMalloc");
    check(cudaMalloc(&other, kBytes), "cudaMalloc");
    check(cudaHostAlloc(&pinned, kBytes, cudaHostAllocDefault), "cudaHostAlloc");
    return fmt::format("{:.0f} GB/s read and written within the GPU, {:.0f} to it, {:.0f} from it",
                       2 * gigabytes_per_second(other, device, kBytes),
                       gigabytes_per_second(device, pinned, kBytes),
                       gigabytes_per_second(pinned, device, kBytes));
  });
}

std::string registered_memory() {
  return in_a_process([] {
    constexpr std::size_t kBytes = std::size_t{64} << 20;
    const int fd = memfd_create("registered", MFD_CLOEXEC);
    if (fd < 0 || ftruncate(fd, kBytes) != 0) throw std::runtime_error("no shared memory");
    void* shared = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (shared == MAP_FAILED) throw std::runtime_error("no shared memory");
    check(cudaHostRegister(shared, kBytes, cudaHostRegisterDefault), "cudaHostRegister");
    void* device = nullptr;
    check(cudaMalloc(&device, kBytes), "cudaMalloc");
    const double rate = gigabytes_per_second(device, shared, kBytes);
    check(cudaHostUnregister(shared), "cudaHostUnregister");
    return fmt::format("yes, {:.0f} GB/s from it", rate);
  });
}

std::string attention_workspace() {
  return in_a_process([] {
    std::string text;
    for (const bool deterministic : {true, false}) {
      const auto device =
          tensor::make_device({.kind = tensor::DeviceKind::cuda, .deterministic = deterministic});
      for (const std::int64_t seq_len : {1024, 2048, 4096}) {
        const auto attention = device->make_attention({.batch = 1,
                                                       .seq_len = seq_len,
                                                       .heads = 32,
                                                       .kv_heads = 8,
                                                       .head_dim = 128,
                                                       .dtype = tensor::DType::bf16});
        text += fmt::format("{}S {}: {:.1f} MiB", text.empty() ? "" : ", ", seq_len,
                            static_cast<double>(attention->scratch_bytes().backward) / kMiB);
      }
      text += deterministic ? " deterministic" : " not deterministic";
    }
    return text;
  });
}

}  // namespace troupe::test
