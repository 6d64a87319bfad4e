#pragma once

#include <nccl.h>

#include <memory>
#include <string>

#include "tensor/libraries/library_search.h"

namespace troupe::tensor::cuda {

/// The functions of libnccl.so.2, which is opened at run time. It stays open until the process
/// ends. NCCL reads its environment at its first use: what we set there is set before.
struct NcclLibrary {
  /// Throws Error{unavailable} if there is none, if it is no library, or if it is older than 2.28.
  explicit NcclLibrary(const LibrarySearch& search);

  /// "NCCL: ncclCommAbort failed with 3 (internal error)", and what NCCL tells of it.
  std::string text_of(const char* call, ncclResult_t result, ncclComm_t communicator) const;

  OpenLibrary file;
  decltype(&ncclGetVersion) get_version;
  decltype(&ncclGetUniqueId) get_unique_id;
  decltype(&ncclGetErrorString) get_error_string;
  decltype(&ncclGetLastError) get_last_error;
  decltype(&ncclCommInitRankConfig) comm_init_rank_config;
  decltype(&ncclCommGetAsyncError) comm_get_async_error;
  decltype(&ncclCommRevoke) comm_revoke;
  decltype(&ncclCommAbort) comm_abort;
  decltype(&ncclGroupStart) group_start;
  decltype(&ncclGroupEnd) group_end;
  decltype(&ncclAllReduce) all_reduce;
  decltype(&ncclReduceScatter) reduce_scatter;
  decltype(&ncclAllGather) all_gather;
  decltype(&ncclBroadcast) broadcast;
  decltype(&ncclSend) send;
  decltype(&ncclRecv) recv;
};

}  // namespace troupe::tensor::cuda
