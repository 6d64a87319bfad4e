#include "tests/fake_nccl/fake_nccl.h"

#include <nccl.h>
#include <sys/mman.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

#include "tests/fake_nccl/communicator.h"
#include "tests/fake_nccl/script.h"

// NCCL's functions, of those the ones that are used. They are stricter than NCCL's: a communicator
// must be non-blocking, and what NCCL leaves undefined ends the process.

using troupe::fake_nccl::Call;
using troupe::fake_nccl::scripted_result;

namespace {

struct Queued {
  ncclComm_t communicator;
  cudaStream_t stream;
  Call call;
};
thread_local int group_depth = 0;
thread_local std::vector<Queued> group;

/// The calling thread is within a communicator, alone.
class Inside {
 public:
  explicit Inside(ncclComm& communicator) : communicator_(communicator) {
    if (!communicator_.is_inside.exchange(true)) return;
    std::fputs("fake NCCL: two threads are within one communicator\n", stderr);
    std::abort();
  }
  ~Inside() { communicator_.is_inside = false; }
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;

 private:
  ncclComm& communicator_;
};

ncclResult_t queue(const char* function, ncclComm_t communicator, cudaStream_t stream,
                   const Call& call) {
  if (const auto result = scripted_result(function); result != ncclSuccess) return result;
  if (!communicator) return ncclInvalidArgument;
  const Inside inside(*communicator);
  if (call.peer < 0 || call.peer >= communicator->size) return ncclInvalidArgument;
  if (group_depth == 0) return communicator->queue(stream, {call});
  group.push_back({communicator, stream, call});
  return ncclSuccess;
}

}  // namespace

extern "C" {

void fakeNcclUseStreams(const FakeNcclStreams* streams) {
  fake_nccl_streams = *streams;
}

ncclResult_t ncclGetVersion(int* version) {
  const char* const other = std::getenv("FAKE_NCCL_VERSION");
  *version = other ? std::atoi(other) : NCCL_VERSION_CODE;
  return ncclSuccess;
}

const char* ncclGetErrorString(ncclResult_t result) {
  constexpr const char* kTexts[]{"no error",       "unhandled cuda error", "unhandled system error",
                                 "internal error", "invalid argument",     "invalid usage",
                                 "remote error",   "in progress"};
  return kTexts[result];
}

const char* ncclGetLastError(ncclComm_t communicator) {
  return communicator->error_text();
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  if (const auto result = scripted_result("ncclGetUniqueId"); result != ncclSuccess) return result;
  auto* const segment = troupe::fake_nccl::make_segment(*id);
  if (!segment) return ncclSystemError;
  munmap(segment, sizeof *segment);
  return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* communicator, int ranks, ncclUniqueId id, int rank,
                                    ncclConfig_t* config) {
  *communicator = nullptr;
  troupe::fake_nccl::tell_settings();
  if (const auto result = scripted_result("ncclCommInitRankConfig"); result != ncclSuccess)
    return result;
  if (!config || config->blocking != 0 || rank < 0 || rank >= ranks ||
      ranks > troupe::fake_nccl::kMostRanks)
    return ncclInvalidArgument;
  *communicator = new ncclComm(rank, ranks, id);
  return ncclInProgress;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t communicator, ncclResult_t* error) {
  const Inside inside(*communicator);
  *error = scripted_result("ncclCommGetAsyncError");
  if (*error == ncclSuccess)
    *error = communicator->poll();
  else
    communicator->fail(*error, "scripted");
  return ncclSuccess;
}

ncclResult_t ncclCommRevoke(ncclComm_t communicator, int) {
  const Inside inside(*communicator);
  communicator->revoke();
  return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t communicator) {
  communicator->abort();
  delete communicator;
  return ncclSuccess;
}

ncclResult_t ncclGroupStart() {
  ++group_depth;
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd() {
  if (--group_depth > 0) return ncclSuccess;
  std::vector<Queued> calls = std::exchange(group, {});
  ncclResult_t result = scripted_result("ncclGroupEnd");
  while (result == ncclSuccess || result == ncclInProgress) {
    if (calls.empty()) return result;
    const auto [communicator, stream, first] = calls.front();
    std::vector<Call> together;
    std::erase_if(calls, [&](const Queued& next) {
      if (next.communicator != communicator || next.stream != stream) return false;
      together.push_back(next.call);
      return true;
    });
    const Inside inside(*communicator);
    if (const auto queued = communicator->queue(stream, together); queued != ncclSuccess)
      result = queued;
  }
  return result;
}

ncclResult_t ncclAllReduce(const void* in, void* out, std::size_t count, ncclDataType_t type,
                           ncclRedOp_t reduction, ncclComm_t communicator, cudaStream_t stream) {
  return queue("ncclAllReduce", communicator, stream,
               {Call::Kind::all_reduce, in, out, count, type, reduction});
}

ncclResult_t ncclReduceScatter(const void* in, void* out, std::size_t count, ncclDataType_t type,
                               ncclRedOp_t reduction, ncclComm_t communicator,
                               cudaStream_t stream) {
  return queue("ncclReduceScatter", communicator, stream,
               {Call::Kind::reduce_scatter, in, out, count, type, reduction});
}

ncclResult_t ncclAllGather(const void* in, void* out, std::size_t count, ncclDataType_t type,
                           ncclComm_t communicator, cudaStream_t stream) {
  return queue("ncclAllGather", communicator, stream,
               {Call::Kind::all_gather, in, out, count, type});
}

ncclResult_t ncclBroadcast(const void* in, void* out, std::size_t count, ncclDataType_t type,
                           int root, ncclComm_t communicator, cudaStream_t stream) {
  return queue("ncclBroadcast", communicator, stream,
               {Call::Kind::broadcast, in, out, count, type, ncclSum, root});
}

ncclResult_t ncclSend(const void* in, std::size_t count, ncclDataType_t type, int peer,
                      ncclComm_t communicator, cudaStream_t stream) {
  return queue("ncclSend", communicator, stream,
               {Call::Kind::send, in, nullptr, count, type, ncclSum, peer});
}

ncclResult_t ncclRecv(void* out, std::size_t count, ncclDataType_t type, int peer,
                      ncclComm_t communicator, cudaStream_t stream) {
  return queue("ncclRecv", communicator, stream,
               {Call::Kind::receive, nullptr, out, count, type, ncclSum, peer});
}

}  // extern "C"
