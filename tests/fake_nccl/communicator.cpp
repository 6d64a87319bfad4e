#include "tests/fake_nccl/communicator.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <span>
#include <thread>
#include <utility>

using troupe::fake_nccl::Call;
using troupe::fake_nccl::Gpu;
using troupe::fake_nccl::Kernel;
using troupe::fake_nccl::LaunchState;
using troupe::fake_nccl::RankState;

FakeNcclStreams fake_nccl_streams{};

namespace {

/// Nothing wakes who waits for another process's memory.
void nap() {
  std::this_thread::sleep_for(std::chrono::microseconds(20));
}

}  // namespace

struct ncclComm::Launched {
  ncclComm& communicator;
  std::shared_ptr<Gpu> gpu;
  Gpu::Launch launch;
  Kernel kernel;
};

ncclComm::ncclComm(int rank, int ranks, const ncclUniqueId& id)
    : size(ranks),
      rank_(rank),
      id_(id),
      script_(troupe::fake_nccl::Script::now()),
      polls_left_(script_.polls) {}

ncclComm::~ncclComm() {
  if (has_memory_) give_memory_back(script_);
  if (segment_) close_segment(segment_, id_);
}

ncclResult_t ncclComm::fail(ncclResult_t with, const std::string& why) {
  const std::lock_guard lock(mutex_);
  if (error_ != ncclSuccess) return error_;
  error_text_ = why;
  error_ = with;
  return with;
}

/// Goes on with the start. A rank that never comes leaves it in progress.
ncclResult_t ncclComm::start() {
  if (!script_.hold.empty() && access(script_.hold.c_str(), F_OK) == 0) return ncclInProgress;
  if (!segment_) {
    segment_ = troupe::fake_nccl::open_segment(id_);
    if (!segment_) return ncclInProgress;
    has_memory_ = take_memory(script_);
    if (!has_memory_) return fail(ncclUnhandledCudaError, "Cuda failure 2 'out of memory'");
    segment_->ranks[static_cast<std::size_t>(rank_)].has_joined = true;
  }
  const auto ranks = std::span(segment_->ranks).first(static_cast<std::size_t>(size));
  if (!std::ranges::all_of(ranks, [](const RankState& rank) { return rank.has_joined.load(); }))
    return ncclInProgress;
  if (polls_left_-- > 0) return ncclInProgress;
  has_started_ = true;
  return ncclSuccess;
}

ncclResult_t ncclComm::poll() {
  if (error_ != ncclSuccess) return error_;
  if (!has_started_) return start();
  if (groups_.empty()) return ncclSuccess;
  if (polls_left_-- > 0) return ncclInProgress;
  for (const Group& group : std::exchange(groups_, {})) launch(group);
  return ncclSuccess;
}

ncclResult_t ncclComm::queue(cudaStream_t stream, const std::vector<Call>& calls) {
  if (error_ != ncclSuccess) return error_;
  if (is_revoked) return ncclInvalidUsage;
  if (!has_started_ || !groups_.empty() || !fake_nccl_streams.run)
    return fail(ncclInvalidUsage, "a call while the one before is in progress");
  groups_.push_back({stream, calls});
  polls_left_ = script_.polls;
  return script_.polls > 0 ? ncclInProgress : poll();
}

void ncclComm::launch(const Group& group) {
  gpu_ = Gpu::of(fake_nccl_streams.gpu_of(group.stream));
  auto* const launched = new Launched{*this,
                                      gpu_,
                                      {.communicator = segment_->id, .number = ++launches_},
                                      Kernel(*segment_, rank_, size, group.calls)};
  tell_of(launched->launch, gpu_->launch(launched->launch));
  ++under_way_;
  fake_nccl_streams.run(
      group.stream,
      [](void* argument) {
        const std::unique_ptr<Launched> next(static_cast<Launched*>(argument));
        next->communicator.run(*next);
      },
      launched);
}

void ncclComm::tell_of(const Gpu::Launch& launch, const std::vector<Gpu::Launch>& ahead) {
  RankState& self = segment_->ranks[static_cast<std::size_t>(rank_)];
  LaunchState& told = self.launches[launch.number % self.launches.size()];
  for (std::size_t i = 0; i < LaunchState::kMostAhead; ++i) {
    const Gpu::Launch before = i < ahead.size() ? ahead[i] : Gpu::Launch{};
    told.ahead[i] = before.communicator;
    told.ahead_kernel[i] = before.number;
  }
  told.number = launch.number;
}

void ncclComm::run(Launched& launched) {
  if (take_slot(launched)) {
    launched.kernel.begin();
    while (!is_revoked && !launched.kernel.has_moved_all()) {
      if (launched.kernel.advance()) continue;
      find_deadlock(launched);
      nap();
    }
    if (!is_revoked) launched.kernel.finish();
  }
  launched.gpu->end(launched.launch);
  --under_way_;
}

/// False if the communicator was revoked before.
bool ncclComm::take_slot(const Launched& launched) {
  while (!is_revoked && !launched.gpu->has_slot(launched.launch)) nap();
  segment_->ranks[static_cast<std::size_t>(rank_)].begun = launched.launch.number;
  return !is_revoked;
}

/// Whether a rank that this kernel waits for has launched its part behind a kernel whose part here
/// waits behind this one.
void ncclComm::find_deadlock(const Launched& launched) {
  const std::uint64_t number = launched.launch.number;
  for (int other = 0; other < size; ++other) {
    const RankState& rank = segment_->ranks[static_cast<std::size_t>(other)];
    const LaunchState& theirs = rank.launches[number % rank.launches.size()];
    if (other == rank_ || rank.begun >= number || theirs.number != number) continue;
    for (std::size_t i = 0; i < LaunchState::kMostAhead; ++i)
      if (theirs.ahead[i] != 0 && launched.gpu->is_waiting(theirs.ahead[i], theirs.ahead_kernel[i]))
        fail(ncclInternalError, "deadlock: ranks " + std::to_string(rank_) + " and " +
                                    std::to_string(other) +
                                    " have launched the kernels of two communicators in different "
                                    "orders, and their GPUs have room for one");
  }
}

void ncclComm::abort() {
  while (is_inside) nap();
  is_revoked = true;
  while (script_.abort_hangs || under_way_ > 0) nap();
  if (gpu_) gpu_->wait_until_idle();
}
