// Calls that make streams, give them work and wait for them.

#include <cstring>
#include <utility>

#include "tests/host_cudart/calling_thread.h"
#include "tests/host_cudart/machine.h"

using troupe::host_cudart::calling_threads_gpu;
using troupe::host_cudart::is_mine;
using troupe::host_cudart::Machine;
using troupe::test::HostCudart;
using troupe::test::HostKernel;

namespace {

CUstream_st& stream_of(cudaStream_t stream) {
  return stream == cudaStreamLegacy ? Machine::current()->legacy() : *stream;
}

bool may_use(cudaStream_t stream) {
  return stream == cudaStreamLegacy || is_mine(stream->device);
}

bool at_once() {
  return true;
}

/// Queues work that may run when its stream comes to it.
cudaError_t give(cudaStream_t stream, const char* name, std::function<void()> run) {
  Machine& machine = *Machine::current();
  const auto call = machine.begin_call(name);
  if (call.code != cudaSuccess) return call.code;
  if (!may_use(stream)) return cudaErrorInvalidResourceHandle;
  machine.give(stream_of(stream), name, at_once, std::move(run));
  return cudaSuccess;
}

/// Whether a stream may touch the memory.
bool is_known(const void* data, std::size_t bytes) {
  Machine& machine = *Machine::current();
  const auto call = machine.begin_call("a look at an address");
  return bytes == 0 || machine.memory.find(data, bytes) != nullptr;
}

}  // namespace

extern "C" {

cudaError_t cudaMemset(void* data, int value, std::size_t bytes) {
  return give(cudaStreamLegacy, "cudaMemset", [=] { std::memset(data, value, bytes); });
}
cudaError_t cudaMemsetAsync(void* data, int value, std::size_t bytes, cudaStream_t stream) {
  if (!is_known(data, bytes)) return cudaErrorInvalidValue;
  return give(stream, "cudaMemsetAsync", [=] { std::memset(data, value, bytes); });
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind,
                            cudaStream_t stream) {
  if (!is_known(to, bytes) || !is_known(from, bytes)) return cudaErrorInvalidValue;
  return give(stream, "cudaMemcpyAsync", [=] { std::memcpy(to, from, bytes); });
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
  const auto call = Machine::current()->begin_call("cudaStreamCreateWithFlags");
  *stream = Machine::current()->make_stream(calling_threads_gpu());
  return call.code;
}
/// What it still has to do is done all the same.
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  const auto call = Machine::current()->begin_call("cudaStreamDestroy");
  Machine::current()->destroy_stream(stream);
  return call.code;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  Machine& machine = *Machine::current();
  auto call = machine.begin_call("cudaStreamSynchronize");
  if (!may_use(stream)) return cudaErrorInvalidResourceHandle;
  return machine.wait(call, "cudaStreamSynchronize",
                      [pending = stream_of(stream).pending] { return *pending == 0; });
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  Machine& machine = *Machine::current();
  const auto call = machine.begin_call("cudaStreamWaitEvent");
  if (call.code != cudaSuccess) return call.code;
  if (!is_mine(stream->device)) return cudaErrorInvalidResourceHandle;
  machine.give(
      *stream, "a wait for an event",
      [state = event->state, mark = event->state->marks] { return state->reached >= mark; }, [] {});
  return cudaSuccess;
}
cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t call, void* argument) {
  return give(stream, "a call of the host", [=] { call(argument); });
}
}

cudaError_t HostCudart::launch(const HostKernel& kernel, cudaStream_t stream) {
  Machine& machine = *Machine::current();
  auto call = machine.begin_call("a launch");
  if (call.code != cudaSuccess) return call.code;
  if (!is_mine(stream->device)) return cudaErrorInvalidResourceHandle;
  const cudaError_t code = machine.load(call, kernel.name);
  if (code == cudaSuccess) machine.give(*stream, "kernel " + kernel.name, kernel.ends, [] {});
  return code;
}
