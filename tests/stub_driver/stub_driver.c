// A libcuda.so.1 for machines without a driver: it has every function of CUDA's driver. Those that
// load a compiled kernel succeed and do nothing, which is all that cuDNN asks of a driver when it
// makes a plan for a described GPU. cuInit and the driver's version answer what the environment
// says, so that the faults of a machine can be told apart without having it. All others fail, as
// those of the toolkit's stub do. generated_names.h has their names: ANSWER(name) for each.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

enum { kSuccess = 0, kStubLibrary = 34, kNotFound = 500 };

#define ANSWER(name) \
  int name(void) { return kStubLibrary; }
#include "generated_names.h"

static int number_of(const char* variable) {
  const char* const text = getenv(variable);
  return text ? atoi(text) : kStubLibrary;
}

int cuInit(unsigned flags) {
  (void)flags;
  return number_of("STUB_DRIVER_INIT");
}

int cuDriverGetVersion(int* version) {
  *version = number_of("STUB_DRIVER_VERSION");
  return kSuccess;
}

/// The newest form of a function that this file has.
int cuGetProcAddress_v2(const char* name, void** address, int version, unsigned long long flags,
                        int* state) {
  (void)version, (void)flags;
  char newer[256];
  Dl_info info;
  dladdr((void*)cuGetProcAddress_v2, &info);
  void* const self = dlopen(info.dli_fname, RTLD_NOW | RTLD_NOLOAD);
  snprintf(newer, sizeof newer, "%s_v2", name);
  *address = dlsym(self, newer);
  if (!*address) *address = dlsym(self, name);
  dlclose(self);
  if (state) *state = *address ? 0 : 1;
  return *address ? kSuccess : kNotFound;
}

int cuLibraryLoadData(void** library) {
  static int nothing;
  *library = &nothing;
  return kSuccess;
}
int cuLibraryGetKernel(void** kernel) {
  static int nothing;
  *kernel = &nothing;
  return kSuccess;
}
int cuLibraryUnload(void) { return kSuccess; }
int cuKernelSetAttribute(void) { return kSuccess; }
int cuFuncSetAttribute(void) { return kSuccess; }
