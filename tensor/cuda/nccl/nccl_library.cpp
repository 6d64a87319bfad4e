#include "tensor/cuda/nccl/nccl_library.h"

#include <fmt/format.h>

#include <cstdlib>

#include "tensor/errors/error.h"

namespace troupe::tensor::cuda {
namespace {

constexpr int kOldest = 22800;  // the first that revokes communicators

std::string version_text(int version) {
  return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

template <typename Function>
void find(const OpenLibrary& file, const char* name, Function& function) {
  void* const found = file.symbol(name);
  if (!found)
    throw Error(ErrorKind::unavailable, fmt::format("{} has no function {}: it is not NCCL's "
                                                    "library, or a part of one",
                                                    file.path.string(), name));
  function = reinterpret_cast<Function>(found);
}

}  // namespace

NcclLibrary::NcclLibrary(const LibrarySearch& search) {
  // A switch's multicast memory has few slots, which communicators exhaust.
  setenv("NCCL_NVLS_ENABLE", "0", 0);
  file = open_cuda_library(search, "libnccl.so.2");
  if (!file.handle) throw Error(ErrorKind::unavailable, file.fault);
  find(file, "ncclGetVersion", get_version);
  int version = 0;
  if (get_version(&version) != ncclSuccess || version < kOldest)
    throw Error(ErrorKind::unavailable,
                fmt::format("{} is NCCL {}, and {} or later is needed", file.path.string(),
                            version_text(version), version_text(kOldest)));
  find(file, "ncclGetUniqueId", get_unique_id);
  find(file, "ncclGetErrorString", get_error_string);
  find(file, "ncclGetLastError", get_last_error);
  find(file, "ncclCommInitRankConfig", comm_init_rank_config);
  find(file, "ncclCommGetAsyncError", comm_get_async_error);
  find(file, "ncclCommRevoke", comm_revoke);
  find(file, "ncclCommAbort", comm_abort);
  find(file, "ncclGroupStart", group_start);
  find(file, "ncclGroupEnd", group_end);
  find(file, "ncclAllReduce", all_reduce);
  find(file, "ncclReduceScatter", reduce_scatter);
  find(file, "ncclAllGather", all_gather);
  find(file, "ncclBroadcast", broadcast);
  find(file, "ncclSend", send);
  find(file, "ncclRecv", recv);
}

std::string NcclLibrary::text_of(const char* call, ncclResult_t result,
                                 ncclComm_t communicator) const {
  const char* const more = communicator ? get_last_error(communicator) : nullptr;
  return fmt::format("NCCL: {} failed with {} ({}){}{}", call, static_cast<int>(result),
                     get_error_string(result), more && *more ? ": " : "", more ? more : "");
}

}  // namespace troupe::tensor::cuda
