#include "tensor/cuda/nccl/nccl_service.h"

#include <algorithm>
#include <future>
#include <utility>

namespace troupe::tensor::cuda {
namespace {

using Clock = std::chrono::steady_clock;

// How often the thread asks NCCL, which calls nobody.
constexpr std::chrono::milliseconds kWhileStarting{2}, kWhileReady{20};
/// How often a waiting thread asks again by itself: a device that has failed wakes nobody.
constexpr std::chrono::seconds kAskAgain{1};

}  // namespace

NcclService::NcclService(const NcclLibrary& library, GroupThreads threads)
    : library_(library), threads_(std::move(threads)), thread_([this] { loop(); }) {}

NcclService::~NcclService() {
  {
    const std::lock_guard lock(mutex_);
    is_closing_ = is_aborting_ = true;
    for (const Kept& kept : all_) kept.communicator->cancel("the device ends");
    changed_.notify_all();
  }
  thread_.join();
}

std::shared_ptr<NcclCommunicator> NcclService::find(std::uint64_t epoch,
                                                    const std::vector<std::uint64_t>& members) {
  const std::lock_guard lock(mutex_);
  const auto found = std::ranges::find_if(
      all_, [&](const Kept& kept) { return kept.epoch == epoch && kept.members == members; });
  return found == all_.end() ? nullptr : found->communicator;
}

std::shared_ptr<NcclCommunicator> NcclService::add(std::uint64_t epoch,
                                                   std::vector<std::uint64_t> members, int member,
                                                   const ncclUniqueId& id) {
  const auto communicator = std::make_shared<NcclCommunicator>(
      library_, "a communicator of " + std::to_string(members.size()) + " processes", id,
      static_cast<int>(members.size()), member);
  const std::lock_guard lock(mutex_);
  all_.push_back({epoch, std::move(members), communicator});
  changed_.notify_all();
  return communicator;
}

void NcclService::abort(const std::string& reason) {
  const std::lock_guard lock(mutex_);
  for (const Kept& kept : all_) kept.communicator->cancel(reason);
  is_aborting_ = !all_.empty();
  ++changes_;
  changed_.notify_all();
}

void NcclService::notify() {
  const std::lock_guard lock(mutex_);
  ++changes_;
  changed_.notify_all();
}

bool NcclService::wait(const std::function<bool()>& ready, Clock::time_point until) {
  for (;;) {
    std::unique_lock lock(mutex_);
    const std::uint64_t seen = changes_;
    lock.unlock();
    if (ready()) return true;
    const auto now = Clock::now();
    if (now >= until) return false;
    lock.lock();
    changed_.wait_until(lock, std::min(until, now + kAskAgain), [&] { return changes_ != seen; });
  }
}

void NcclService::loop() {
  threads_.begin();
  std::unique_lock lock(mutex_);
  for (;;) {
    if (const Communicators ending = take_ending(); !ending.empty()) {
      lock.unlock();
      end(ending);
      lock.lock();
      ++changes_;
      changed_.notify_all();
      continue;
    }
    if (is_closing_) return;
    bool starting = false;
    const std::vector<Kept> all = all_;
    lock.unlock();
    bool changed = false;
    for (const Kept& kept : all) {
      changed |= kept.communicator->advance();
      const NcclCommunicator::State state = kept.communicator->state();
      starting |= state == NcclCommunicator::State::starting;
      if (state == NcclCommunicator::State::failed) abort(kept.communicator->fault());
    }
    lock.lock();
    if (changed) {
      ++changes_;
      changed_.notify_all();
    }
    const bool is_idle = all_.empty();
    const auto woken = [&] { return is_aborting_ || is_closing_ || all_.size() != all.size(); };
    if (is_idle)
      changed_.wait(lock, woken);
    else
      changed_.wait_for(lock, starting ? kWhileStarting : kWhileReady, woken);
  }
}

/// What is to end now: all, or those that nobody uses any more. Called with the lock.
NcclService::Communicators NcclService::take_ending() {
  const bool aborts = std::exchange(is_aborting_, false);
  Communicators ending;
  std::erase_if(all_, [&](Kept& kept) {
    if (!aborts && kept.communicator.use_count() > 1) return false;
    ending.push_back(std::move(kept.communicator));
    return true;
  });
  return ending;
}

/// Ends them on a thread of their own, because NCCL may never come back.
void NcclService::end(const Communicators& communicators) {
  const auto ended = std::make_shared<std::promise<void>>();
  std::thread thread([this, communicators, ended] {
    threads_.begin();
    for (const auto& communicator : communicators) communicator->revoke();
    for (const auto& communicator : communicators) communicator->abort();
    ended->set_value();
  });
  if (ended->get_future().wait_for(threads_.deadline) != std::future_status::ready)
    threads_.on_overdue();
  thread.join();
}

}  // namespace troupe::tensor::cuda
