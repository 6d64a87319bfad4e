// Calls that give memory, take it back and tell of it.

#include <cstdlib>
#include <cstring>

#include "tests/host_cudart/calling_thread.h"
#include "tests/host_cudart/machine.h"

using troupe::host_cudart::calling_threads_gpu;
using troupe::host_cudart::Machine;
using troupe::host_cudart::MemoryMap;
using Kind = MemoryMap::Kind;

namespace {

constexpr std::size_t kAlignment = 256;

void* allocate(Machine& machine, std::size_t bytes, Kind kind) {
  const std::size_t size = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  void* const data = std::aligned_alloc(kAlignment, size);
  std::memset(data, 0xff, size);
  machine.memory.add(data, {.bytes = bytes, .kind = kind, .device = calling_threads_gpu()});
  return data;
}

bool has_room(const troupe::test::HostCudart& host, std::size_t bytes) {
  return bytes <= host.memory - host.used - host.used_by_others;
}

}  // namespace

extern "C" {

cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  const auto call = Machine::current()->begin_call("cudaMemGetInfo");
  const auto& host = Machine::current()->settings;
  *total = host.memory;
  *free = host.memory - host.used - host.used_by_others;
  return call.code;
}

cudaError_t cudaMalloc(void** data, std::size_t bytes) {
  Machine& machine = *Machine::current();
  const auto call = machine.begin_call("cudaMalloc");
  if (call.code != cudaSuccess) return call.code;
  if (!has_room(machine.settings, bytes)) {
    if (machine.settings.on_full) machine.settings.on_full();
    return cudaErrorMemoryAllocation;
  }
  machine.settings.used += bytes;
  *data = allocate(machine, bytes, Kind::device);
  return cudaSuccess;
}

/// Waits until nothing runs that may use the memory. Who calls it on the thread that would run it
/// has forgotten to wait.
cudaError_t cudaFree(void* data) {
  Machine& machine = *Machine::current();
  auto call = machine.begin_call("cudaFree");
  if (machine.runs_when_told() && !machine.are_streams_idle()) std::abort();
  const cudaError_t code = machine.wait(call, "cudaFree", [&] { return machine.is_idle(); });
  const std::size_t bytes = machine.memory.remove(data, Kind::device).bytes;
  if (bytes == 0) return cudaErrorInvalidValue;
  machine.settings.used -= bytes;
  std::free(data);
  return code;
}

cudaError_t cudaHostAlloc(void** data, std::size_t bytes, unsigned) {
  Machine& machine = *Machine::current();
  const auto call = machine.begin_call("cudaHostAlloc");
  *data = allocate(machine, bytes, Kind::pinned);
  return call.code;
}

cudaError_t cudaFreeHost(void* data) {
  Machine& machine = *Machine::current();
  const auto call = machine.begin_call("cudaFreeHost");
  if (machine.memory.remove(data, Kind::pinned).bytes == 0) return cudaErrorInvalidValue;
  std::free(data);
  return call.code;
}

cudaError_t cudaHostRegister(void* data, std::size_t bytes, unsigned) {
  Machine& machine = *Machine::current();
  const auto call = machine.begin_call("cudaHostRegister");
  if (call.code != cudaSuccess) return call.code;
  const bool is_new = machine.memory.add(data, {.bytes = bytes, .kind = Kind::registered});
  return is_new ? cudaSuccess : cudaErrorHostMemoryAlreadyRegistered;
}

cudaError_t cudaHostUnregister(void* data) {
  Machine& machine = *Machine::current();
  const auto call = machine.begin_call("cudaHostUnregister");
  if (call.code != cudaSuccess) return call.code;
  const bool was_known = machine.memory.remove(data, Kind::registered).bytes > 0;
  return was_known ? cudaSuccess : cudaErrorHostMemoryNotRegistered;
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* data) {
  Machine& machine = *Machine::current();
  const auto call = machine.begin_call("cudaPointerGetAttributes");
  *attributes = {};
  attributes->type = cudaMemoryTypeUnregistered;
  const MemoryMap::Piece* const piece = machine.memory.find(data, 1);
  if (!piece) return call.code;
  attributes->type = piece->kind == Kind::device ? cudaMemoryTypeDevice : cudaMemoryTypeHost;
  attributes->device = piece->device;
  return call.code;
}
}
