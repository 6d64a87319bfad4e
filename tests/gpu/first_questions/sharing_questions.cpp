#include <fmt/format.h>

#include <array>
#include <string_view>

#include "tests/gpu/first_questions/child.h"
#include "tests/gpu/first_questions/questions.h"

namespace troupe::test {
namespace {

/// The memory that one process allocates for itself and another, a multiple of 2 MiB.
constexpr std::size_t kBytes = std::size_t{64} << 20;

/// What a call returned, as a text that passes between processes: the parent may not even ask CUDA
/// for the name of an error, because that initializes it.
using ErrorName = std::array<char, 64>;

ErrorName name_of(cudaError_t error) {
  ErrorName name{};
  std::string_view(cudaGetErrorName(error)).copy(name.data(), name.size() - 1);
  return name;
}

/// Allocates, sends the handle to the parent, and waits for `body` to end.
void own(Line& parent, const std::function<void(void* memory)>& body) {
  void* memory = nullptr;
  check(cudaMalloc(&memory, kBytes), "cudaMalloc");
  check(cudaMemset(memory, 1, kBytes), "cudaMemset");
  check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  cudaIpcMemHandle_t handle{};
  check(cudaIpcGetMemHandle(&handle, memory), "cudaIpcGetMemHandle");
  parent.send(handle);
  body(memory);
}

void* open_memory(Line& parent) {
  const auto handle = parent.receive<cudaIpcMemHandle_t>();
  void* memory = nullptr;
  check(cudaIpcOpenMemHandle(&memory, handle, cudaIpcMemLazyEnablePeerAccess),
        "cudaIpcOpenMemHandle");
  return memory;
}

unsigned char first_byte(const void* memory) {
  unsigned char value = 0;
  check(cudaMemcpy(&value, memory, 1, cudaMemcpyDefault), "cudaMemcpy");
  return value;
}

/// Copies between the memory and some of its own until a call fails or the time is over. Tells the
/// parent once it has begun.
cudaError_t copy_on(Line& parent, void* memory, bool writes, double seconds) {
  void* own_memory = nullptr;
  check(cudaMalloc(&own_memory, kBytes), "cudaMalloc");
  const auto begin = std::chrono::steady_clock::now();
  bool told = false;
  while (seconds_since(begin) < seconds) {
    void* const to = writes ? memory : own_memory;
    const void* const from = writes ? own_memory : memory;
    cudaError_t error = cudaMemcpyAsync(to, from, kBytes, cudaMemcpyDefault, nullptr);
    if (error == cudaSuccess) error = cudaStreamSynchronize(nullptr);
    if (error != cudaSuccess) return error;
    if (!told) parent.send(1);
    told = true;
  }
  return cudaSuccess;
}

}  // namespace

std::string shared_allocation() {
  Child owner([](Line& parent) {
    own(parent, [&](void* memory) {
      parent.receive<int>();
      parent.send(first_byte(memory));
      parent.receive<int>();
    });
  });
  Child user([](Line& parent) {
    void* const memory = open_memory(parent);
    parent.send(first_byte(memory));
    check(cudaMemset(memory, 2, kBytes), "cudaMemset");
    check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    check(cudaIpcCloseMemHandle(memory), "cudaIpcCloseMemHandle");
    parent.send(1);
  });
  user.line().send(owner.line().receive<cudaIpcMemHandle_t>());
  const int read = user.line().receive<unsigned char>();
  user.line().receive<int>();
  owner.line().send(1);
  const int back = owner.line().receive<unsigned char>();
  owner.line().send(1);
  if (read != 1 || back != 2) return fmt::format("no: {} was read, {} came back", read, back);
  return "yes, reads and writes";
}

std::string shared_event() {
  Child owner([](Line& parent) {
    own(parent, [&](void* memory) {
      cudaEvent_t event{};
      check(cudaEventCreateWithFlags(&event, cudaEventInterprocess | cudaEventDisableTiming),
            "cudaEventCreateWithFlags");
      cudaIpcEventHandle_t handle{};
      check(cudaIpcGetEventHandle(&handle, event), "cudaIpcGetEventHandle");
      spin(nullptr, 500);
      check(cudaMemsetAsync(memory, 3, kBytes, nullptr), "cudaMemsetAsync");
      check(cudaEventRecord(event, nullptr), "cudaEventRecord");
      parent.send(handle);
      parent.receive<int>();
    });
  });
  Child user([](Line& parent) {
    void* const memory = open_memory(parent);
    const auto handle = parent.receive<cudaIpcEventHandle_t>();
    cudaEvent_t event{};
    check(cudaIpcOpenEventHandle(&event, handle), "cudaIpcOpenEventHandle");
    check(cudaStreamWaitEvent(nullptr, event, 0), "cudaStreamWaitEvent");
    parent.send(first_byte(memory));
  });
  user.line().send(owner.line().receive<cudaIpcMemHandle_t>());
  user.line().send(owner.line().receive<cudaIpcEventHandle_t>());
  const int read = user.line().receive<unsigned char>();
  owner.line().send(1);
  return read == 3 ? "yes, a stream waits for it" : fmt::format("no: {} was read", read);
}

std::string death_of_the_owner() {
  std::string answer;
  for (const bool writes : {false, true}) {
    Child owner([](Line& parent) { own(parent, [&](void*) { parent.receive<int>(); }); });
    Child user([writes](Line& parent) {
      parent.send(name_of(copy_on(parent, open_memory(parent), writes, 3)));
    });
    user.line().send(owner.line().receive<cudaIpcMemHandle_t>());
    user.line().receive<int>();
    owner.kill();
    const auto error = user.line().receive<ErrorName>();
    answer += fmt::format("{}who {} sees {}", writes ? ", " : "", writes ? "writes" : "reads",
                          error.data());
  }
  return answer;
}

std::string death_of_the_user() {
  Child owner([](Line& parent) {
    own(parent, [&](void* memory) {
      parent.receive<int>();
      const cudaError_t error = cudaMemset(memory, 4, kBytes);
      parent.send(name_of(error == cudaSuccess ? cudaDeviceSynchronize() : error));
      parent.receive<int>();
    });
  });
  Child user([](Line& parent) { copy_on(parent, open_memory(parent), true, 60); });
  user.line().send(owner.line().receive<cudaIpcMemHandle_t>());
  user.line().receive<int>();
  user.kill();
  user.wait();
  owner.line().send(1);
  const auto error = owner.line().receive<ErrorName>();
  owner.line().send(1);
  return fmt::format("the owner goes on with {}", error.data());
}

std::string wait_for_a_dead_process() {
  Child owner([](Line& parent) {
    cudaEvent_t event{};
    check(cudaEventCreateWithFlags(&event, cudaEventInterprocess | cudaEventDisableTiming),
          "cudaEventCreateWithFlags");
    cudaIpcEventHandle_t handle{};
    check(cudaIpcGetEventHandle(&handle, event), "cudaIpcGetEventHandle");
    spin(nullptr, 60'000);
    check(cudaEventRecord(event, nullptr), "cudaEventRecord");
    parent.send(handle);
    parent.receive<int>();
  });
  Child user([](Line& parent) {
    const auto handle = parent.receive<cudaIpcEventHandle_t>();
    cudaEvent_t event{};
    check(cudaIpcOpenEventHandle(&event, handle), "cudaIpcOpenEventHandle");
    check(cudaStreamWaitEvent(nullptr, event, 0), "cudaStreamWaitEvent");
    parent.send(1);
    const auto begin = std::chrono::steady_clock::now();
    cudaError_t state = cudaErrorNotReady;
    while (state == cudaErrorNotReady && seconds_since(begin) < 15)
      state = cudaStreamQuery(nullptr);
    parent.send(state == cudaErrorNotReady);
    parent.send(name_of(state));
    parent.send(seconds_since(begin));
  });
  user.line().send(owner.line().receive<cudaIpcEventHandle_t>());
  user.line().receive<int>();
  owner.kill();
  owner.wait();
  const auto waits_still = user.line().receive<bool>();
  const auto state = user.line().receive<ErrorName>();
  const auto seconds = user.line().receive<double>();
  if (waits_still) return "no, not within 15 s";
  return fmt::format("its state is {} after {:.1f} s", state.data(), seconds);
}

}  // namespace troupe::test
