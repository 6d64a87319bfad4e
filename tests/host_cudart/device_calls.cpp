// Calls about GPUs and the context, and those of cuBLASLt that need one.

#include <cublasLt.h>

#include <cstdio>
#include <cstring>

#include "tests/host_cudart/calling_thread.h"
#include "tests/host_cudart/machine.h"

using troupe::host_cudart::calling_threads_gpu;
using troupe::host_cudart::Machine;

extern "C" {

cudaError_t cudaGetDeviceCount(int* count) {
  *count = 2;
  return Machine::current()->begin_call("cudaGetDeviceCount").code;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* gpu, int) {
  const auto& settings = Machine::current()->settings;
  *gpu = {};
  std::strcpy(gpu->name, "Host GPU");
  gpu->major = settings.major;
  gpu->multiProcessorCount = 4;
  gpu->totalGlobalMem = settings.memory;
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
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int) {
  *value = attribute == cudaDevAttrMemoryPoolSupportedHandleTypes
               ? cudaMemHandleTypePosixFileDescriptor
               : 0;
  return cudaSuccess;
}
cudaError_t cudaDeviceSynchronize() {
  Machine& machine = *Machine::current();
  auto call = machine.begin_call("cudaDeviceSynchronize");
  return machine.wait(call, "cudaDeviceSynchronize", [&] { return machine.is_idle(); });
}
cudaError_t cudaInitDevice(int, unsigned, unsigned) {
  const auto call = Machine::current()->begin_call("cudaInitDevice");
  Machine::current()->make_context();
  return call.code;
}
cudaError_t cudaSetDevice(int device) {
  calling_threads_gpu() = device;
  return cudaSuccess;
}
cudaError_t cudaGetLastError() {
  return cudaSuccess;
}
const char* cudaGetErrorName(cudaError_t code) {
  if (code == cudaErrorLaunchTimeout) return "cudaErrorLaunchTimeout";
  return code == cudaErrorIllegalAddress ? "cudaErrorIllegalAddress" : "another error";
}
const char* cudaGetErrorString(cudaError_t code) {
  if (code == cudaErrorLaunchTimeout) return "the host runtime has found a deadlock";
  return code == cudaErrorIllegalAddress ? "an illegal memory access was encountered" : "another";
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
