#include "tensor/cuda/nccl/nccl_communicator.h"

#include <fmt/format.h>

#include <thread>
#include <utility>

#include "tensor/errors/error.h"

namespace troupe::tensor::cuda {

NcclCommunicator::NcclCommunicator(const NcclLibrary& library, std::string name,
                                   const ncclUniqueId& id, int size, int member)
    : library_(library), name_(std::move(name)), id_(id), size_(size), member_(member) {}

std::string NcclCommunicator::fault() const {
  const std::lock_guard lock(mutex_);
  return fault_;
}

void NcclCommunicator::fail(const std::string& reason) {
  const std::lock_guard lock(mutex_);
  if (fault_.empty()) fault_ = reason;
}

void NcclCommunicator::cancel(const std::string& reason) {
  fail(reason);
  is_cancelled_ = true;
}

/// The result of the calls before, once NCCL has it, or ncclInProgress if the communicator is to
/// end.
ncclResult_t NcclCommunicator::settled() {
  for (;;) {
    ncclResult_t result = ncclSuccess;
    const ncclResult_t asked = library_.comm_get_async_error(handle_, &result);
    if (asked != ncclSuccess) return asked;
    if (result != ncclInProgress || is_cancelled_) return result;
    std::this_thread::yield();
  }
}

void NcclCommunicator::queue(cudaStream_t stream,
                             const std::function<void(NcclBatch& batch)>& calls) {
  const std::lock_guard lock(calls_);
  if (is_cancelled_ || state() != State::ready) throw Error(ErrorKind::unavailable, fault());
  NcclBatch batch(library_, handle_, stream);
  (void)library_.group_start();  // only counts
  calls(batch);
  const ncclResult_t ended = library_.group_end();
  ncclResult_t result = batch.result();
  if (result == ncclSuccess || result == ncclInProgress) result = ended;
  if (result == ncclInProgress) result = settled();
  if (result == ncclSuccess) return;
  if (result != ncclInProgress) {
    fail(fmt::format("{}: {}", name_, library_.text_of("a collective", result, handle_)));
    state_ = State::failed;
  }
  throw Error(ErrorKind::unavailable, fault());
}

void NcclCommunicator::begin() {
  has_begun_ = true;
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  config.commName = name_.c_str();
  const ncclResult_t result =
      library_.comm_init_rank_config(&handle_, size_, id_, member_, &config);
  if (result == ncclSuccess || result == ncclInProgress) return;
  fail(fmt::format("{}: {}", name_, library_.text_of("ncclCommInitRankConfig", result, handle_)));
  state_ = State::failed;
}

bool NcclCommunicator::advance() {
  const State before = state();
  if (before == State::failed || before == State::ended) return false;
  const std::unique_lock lock(calls_, std::try_to_lock);
  if (!lock || is_cancelled_) return false;
  if (!has_begun_) begin();
  if (state() == State::failed) return true;
  ncclResult_t result = ncclSuccess;
  const ncclResult_t asked = library_.comm_get_async_error(handle_, &result);
  if (asked != ncclSuccess) result = asked;
  if (result == ncclInProgress) return false;
  if (result == ncclSuccess) {
    if (before == State::starting) state_ = State::ready;
    return state() != before;
  }
  fail(
      fmt::format("{}: {}", name_, library_.text_of("a collective or the start", result, handle_)));
  state_ = State::failed;
  return true;
}

void NcclCommunicator::revoke() {
  const std::lock_guard lock(calls_);
  if (handle_) (void)library_.comm_revoke(handle_, NCCL_REVOKE_DEFAULT);
}

void NcclCommunicator::abort() {
  const std::lock_guard lock(calls_);
  if (handle_) (void)library_.comm_abort(std::exchange(handle_, nullptr));
  state_ = State::ended;
}

}  // namespace troupe::tensor::cuda
