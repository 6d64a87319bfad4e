#pragma once

#include <nccl.h>

#include <string>

namespace troupe::fake_nccl {

/// What the environment says of the communicators that start from now on (fake_nccl.h).
struct Script {
  int polls = 3;
  std::string hold;
  bool abort_hangs = false;
  int memory_of_each = 0, memory_of_all = 0;

  static Script now();
};

/// The result that a call of this function is to give; ncclSuccess: what it gives by itself.
ncclResult_t scripted_result(const char* function);

/// Writes the line of FAKE_NCCL_TELL: "<NCCL_SOCKET_IFNAME> <NCCL_NVLS_ENABLE>".
void tell_settings();

/// Takes MiB of the process's memory for communicators. False if they are not there.
bool take_memory(const Script& script);
void give_memory_back(const Script& script);

}  // namespace troupe::fake_nccl
