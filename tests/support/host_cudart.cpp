#include "tests/support/host_cudart.h"

#include <cublasLt.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <utility>

using troupe::test::HostCudart;

/// A stream of the runtime: work in order, each piece of which says whether it could run.
struct CUstream_st {
  int device = 0;
  std::deque<std::function<bool()>> work;
};

/// Marks are numbered; those up to `reached` are reached.
struct CUevent_st {
  int device = 0;
  int marks = 0, reached = 0;
  bool timed = false;
  float stamp_ms = 0;
  cudaStream_t stream = nullptr;  // of the latest mark
};

namespace troupe::test {
namespace {

struct Machine {
  HostCudart settings;
  std::set<cudaStream_t> streams;
  CUstream_st legacy;
  std::map<void*, std::size_t> memory;  // by cudaMalloc
};

std::unique_ptr<Machine>& machine() {
  static auto machine = std::make_unique<Machine>();
  return machine;
}

thread_local int current_device = 0;

bool is_mine(int device) {
  return device == current_device;
}

bool run_stream(CUstream_st& stream) {
  bool moved = false;
  while (!stream.work.empty()) {
    if (!stream.work.front()()) return moved;
    stream.work.pop_front();
    moved = true;
  }
  return moved;
}

}  // namespace

HostCudart& HostCudart::reset() {
  machine() = std::make_unique<Machine>();
  current_device = 0;
  return get();
}

HostCudart& HostCudart::get() {
  return machine()->settings;
}

void HostCudart::run() {
  bool moved = true;
  while (moved) {
    moved = run_stream(machine()->legacy);
    for (cudaStream_t stream : machine()->streams) moved |= run_stream(*stream);
  }
}

}  // namespace troupe::test

using troupe::test::current_device;
using troupe::test::is_mine;
using troupe::test::machine;

extern "C" {

cudaError_t cudaGetDeviceCount(int* count) {
  *count = 2;
  return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* gpu, int) {
  *gpu = {};
  std::strcpy(gpu->name, "Host GPU");
  gpu->major = HostCudart::get().major;
  gpu->multiProcessorCount = 4;
  gpu->totalGlobalMem = HostCudart::get().memory;
  return cudaSuccess;
}
cudaError_t cudaDriverGetVersion(int* version) {
  *version = 13000;
  return cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = 13000;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetPCIBusId(char* id, int size, int device) {
  std::snprintf(id, static_cast<std::size_t>(size), "0000:%02X:00.0", device);
  return cudaSuccess;
}
cudaError_t cudaDeviceCanAccessPeer(int* can, int, int) {
  *can = 1;
  return cudaSuccess;
}
cudaError_t cudaInitDevice(int, unsigned, unsigned) {
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) {
  current_device = device;
  return cudaSuccess;
}
cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  *total = HostCudart::get().memory;
  *free = *total - HostCudart::get().used;
  return cudaSuccess;
}
cudaError_t cudaGetLastError() {
  return cudaSuccess;
}
const char* cudaGetErrorName(cudaError_t code) {
  return code == cudaErrorIllegalAddress ? "cudaErrorIllegalAddress" : "another error";
}
const char* cudaGetErrorString(cudaError_t code) {
  return code == cudaErrorIllegalAddress ? "an illegal memory access was encountered" : "another";
}

cudaError_t cudaMalloc(void** data, std::size_t bytes) {
  HostCudart& host = HostCudart::get();
  if (bytes > host.memory - host.used) return cudaErrorMemoryAllocation;
  *data = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
  std::memset(*data, 0xff, bytes);
  host.used += bytes;
  machine()->memory[*data] = bytes;
  return cudaSuccess;
}
cudaError_t cudaFree(void* data) {
  for (cudaStream_t stream : machine()->streams)
    if (!stream->work.empty()) std::abort();  // the work may use the memory
  HostCudart::get().used -= machine()->memory.at(data);
  machine()->memory.erase(data);
  std::free(data);
  return cudaSuccess;
}
cudaError_t cudaHostAlloc(void** data, std::size_t bytes, unsigned) {
  *data = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
  std::memset(*data, 0xff, bytes);
  return cudaSuccess;
}
cudaError_t cudaFreeHost(void* data) {
  std::free(data);
  return cudaSuccess;
}
cudaError_t cudaMemset(void* data, int value, std::size_t bytes) {
  machine()->legacy.work.push_back([=] {
    std::memset(data, value, bytes);
    return true;
  });
  return cudaSuccess;
}

cudaError_t cudaMemsetAsync(void* data, int value, std::size_t bytes, cudaStream_t stream) {
  if (!is_mine(stream->device)) return cudaErrorInvalidResourceHandle;
  stream->work.push_back([=] {
    std::memset(data, value, bytes);
    return true;
  });
  return cudaSuccess;
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind,
                            cudaStream_t stream) {
  if (!is_mine(stream->device)) return cudaErrorInvalidResourceHandle;
  stream->work.push_back([=] {
    std::memcpy(to, from, bytes);
    return true;
  });
  return cudaSuccess;
}
cudaError_t cudaMemcpy2DAsync(void* to, std::size_t to_pitch, const void* from,
                              std::size_t from_pitch, std::size_t width, std::size_t height,
                              cudaMemcpyKind kind, cudaStream_t stream) {
  for (std::size_t row = 0; row < height; ++row) {
    const cudaError_t code = cudaMemcpyAsync(static_cast<std::byte*>(to) + row * to_pitch,
                                             static_cast<const std::byte*>(from) + row * from_pitch,
                                             width, kind, stream);
    if (code != cudaSuccess) return code;
  }
  return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  if (flags != cudaStreamNonBlocking) return cudaErrorInvalidValue;
  *stream = new CUstream_st{.device = current_device};
  machine()->streams.insert(*stream);
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  machine()->streams.erase(stream);
  delete stream;
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  if (stream != cudaStreamLegacy && !is_mine(stream->device)) return cudaErrorInvalidResourceHandle;
  HostCudart::get().run();
  return cudaSuccess;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  if (!is_mine(stream->device)) return cudaErrorInvalidResourceHandle;
  stream->work.push_back([=, mark = event->marks] { return event->reached >= mark; });
  return cudaSuccess;
}
cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t call, void* argument) {
  if (!is_mine(stream->device)) return cudaErrorInvalidResourceHandle;
  stream->work.push_back([=] {
    call(argument);
    return true;
  });
  return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  *event = new CUevent_st{.device = current_device, .timed = !(flags & cudaEventDisableTiming)};
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete event;
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  HostCudart& host = HostCudart::get();
  if (host.next_record != cudaSuccess) return std::exchange(host.next_record, cudaSuccess);
  if (!is_mine(stream->device) || !is_mine(event->device)) return cudaErrorInvalidResourceHandle;
  event->stream = stream;
  stream->work.push_back([=, mark = ++event->marks] {
    event->reached = mark;
    event->stamp_ms = HostCudart::get().stamp_ms;
    return true;
  });
  return cudaSuccess;
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  if (!is_mine(event->device)) return cudaErrorInvalidResourceHandle;
  return event->reached == event->marks ? cudaSuccess : cudaErrorNotReady;
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  if (!is_mine(event->device)) return cudaErrorInvalidResourceHandle;
  if (event->stream) troupe::test::run_stream(*event->stream);
  if (event->reached != event->marks) HostCudart::get().run();
  return cudaSuccess;
}
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t from, cudaEvent_t to) {
  if (!from->timed || !to->timed || !is_mine(to->device)) return cudaErrorInvalidResourceHandle;
  *milliseconds = to->stamp_ms - from->stamp_ms;
  return cudaSuccess;
}

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  static int nothing;
  *handle = reinterpret_cast<cublasLtHandle_t>(&nothing);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t) {
  return CUBLAS_STATUS_SUCCESS;
}
}
