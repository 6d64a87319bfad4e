#include "transport/ucx/ucx_worker.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <optional>
#include <utility>

#include "tensor/errors/error.h"
#include "transport/ucx/network_interface.h"

namespace troupe::transport {
namespace {

/// Tensors of at least this size travel by rendezvous, straight into the receiver's slot. For
/// smaller ones UCX's copy through its own small buffers costs less than the extra messages.
constexpr const char* kRendezvousThreshold = "32k";
/// Milliseconds after which a yielding progress thread looks whether the polling thread has
/// stopped.
constexpr int kYieldMs = 1;
/// After so many rounds in which UCX claims to be busy and nothing moves, a peer has died while it
/// wrote into a queue of this process in shared memory. No event will wake the progress thread
/// then, so it polls every kLookInMs.
constexpr int kBusyRounds = 1000;
constexpr int kLookInMs = 1;
/// Rounds of polling after which a polling thread gives others a chance to take the lock.
constexpr int kPollsPerTurn = 8;

using Config = std::unique_ptr<ucp_config_t, decltype(&ucp_config_release)>;

void set(ucp_config_t* config, const char* name, const char* value) {
  check_ucx(ucp_config_modify(config, name, value), std::string("UCX refuses UCX_") + name);
}

/// UCX's configuration. The user's UCX_* variables hold, except those that failure handling depends
/// on.
Config read_config(const UcxEnvironment& environment) {
  ucp_config_t* raw = nullptr;
  check_ucx(ucp_config_read(nullptr, nullptr, &raw), "UCX cannot read its configuration");
  Config config(raw, &ucp_config_release);
  // Without this setting UCX refuses endpoints in peer error mode over shared memory.
  if (environment.may_share_memory()) set(raw, "MM_ERROR_HANDLING", "y");
  // If a connection breaks within a zero-copy send, UCX 1.13's TCP completes that send twice and
  // ends the process. Copies through segments as large as the receiver takes cost little more.
  set(raw, "ZCOPY_THRESH", "inf");
  // A process that is killed while UCX makes a POSIX segment leaves its file behind; a System V one
  // is marked for removal as soon as it is attached.
  set(raw, "TLS", environment.transports.empty() ? "^posix" : environment.transports.c_str());
  // Loopback if all ranks are on this host: then no port is opened to other hosts.
  if (!environment.has_devices) set(raw, "NET_DEVICES", environment.device.c_str());
  if (!environment.has_rendezvous_threshold) set(raw, "RNDV_THRESH", kRendezvousThreshold);
  return config;
}

ucp_context_h make_context(const UcxEnvironment& environment) {
  const Config config = read_config(environment);
  ucp_params_t params{};
  params.field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_NAME;
  params.features = UCP_FEATURE_AM | UCP_FEATURE_WAKEUP;
  params.name = "troupe";
  ucp_context_h context = nullptr;
  check_ucx(ucp_init(&params, config.get(), &context), "UCX cannot open its transports");
  return context;
}

ucp_worker_h make_worker(ucp_context_h context) {
  ucp_worker_params_t params{};
  params.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
  // One caller at a time, but not always the same one. SERIALIZED would say that, but has races in
  // UCX 1.13.
  params.thread_mode = UCS_THREAD_MODE_MULTI;
  ucp_worker_h worker = nullptr;
  check_ucx(ucp_worker_create(context, &params, &worker), "UCX cannot create a worker");
  return worker;
}

void signal(const FileDescriptor& event) {
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(event.get(), &one, sizeof one);
}

void clear(const FileDescriptor& event) {
  std::uint64_t count = 0;
  [[maybe_unused]] const ssize_t got = ::read(event.get(), &count, sizeof count);
}

}  // namespace

void check_ucx(ucs_status_t status, const std::string& what) {
  if (status != UCS_OK)
    throw Error(ErrorKind::unavailable, what + ": " + ucs_status_string(status));
}

UcxWorker::UcxWorker(std::chrono::microseconds spin, const UcxEnvironment& environment)
    : spin_(spin),
      wake_fd_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      notify_fd_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  open(environment);
  check_ucx(ucp_worker_get_efd(worker_.get(), &event_fd_), "UCX has no event descriptor");
  for (const FileDescriptor* fd : {&wake_fd_, &notify_fd_})
    if (fd->get() < 0) check_ucx(UCS_ERR_NO_RESOURCE, "no eventfd for the progress thread");
  thread_ = std::thread([this] { run(); });
}

/// UCX 1.13 looks for a free port of its range for ever, so it is given one at a time.
void UcxWorker::open(const UcxEnvironment& environment) {
  const auto range = environment.has_devices ? std::nullopt : parse_ports(environment.ports);
  if (!range) return open_transports(environment);
  const int count = range->last - range->first + 1;
  for (int i = 0; i < count; ++i) {
    // Processes that start together begin at different ports.
    const int port = range->first + (::getpid() + i) % count;
    if (!is_free_port(port, environment.address)) continue;
    // The variable has been there since the start, so no other thread loses sight of any.
    ::setenv(kPortRange, fmt::format("{0}-{0}", port).c_str(), 1);
    try {
      return open_transports(environment);
    } catch (const Error&) {
      if (is_free_port(port, environment.address)) throw;  // it was not for the port
    }
  }
  throw Error(ErrorKind::unavailable,
              fmt::format("none of the TCP ports {} of {} ({}) is free", environment.ports,
                          environment.device, environment.address));
}

void UcxWorker::open_transports(const UcxEnvironment& environment) {
  shares_memory_ = environment.may_share_memory();
  context_.reset(make_context(environment));
  try {
    worker_.reset(make_worker(context_.get()));
    return;
  } catch (const Error&) {
    if (!environment.transports.empty()) throw;
  }
  // UCX does not do without shared memory by itself where System V's limits (ipcs -l) leave none.
  UcxEnvironment without = environment;
  without.transports = "^posix,sysv";
  open_transports(without);
}

UcxWorker::~UcxWorker() {
  stop();
}

void UcxWorker::stop() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_progress_thread();
  thread_.join();
}

std::string UcxWorker::address() const {
  ucp_address_t* address = nullptr;
  std::size_t length = 0;
  check_ucx(ucp_worker_get_address(worker_.get(), &address, &length), "UCX has no address");
  std::string text(reinterpret_cast<const char*>(address), length);
  ucp_worker_release_address(worker_.get(), address);
  return text;
}

void UcxWorker::on_message(unsigned id, ucp_am_recv_callback_t callback, void* argument) {
  ucp_am_handler_param_t params{};
  params.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB |
                      UCP_AM_HANDLER_PARAM_FIELD_ARG | UCP_AM_HANDLER_PARAM_FIELD_FLAGS;
  params.id = id;
  params.cb = callback;
  params.arg = argument;
  params.flags = UCP_AM_FLAG_WHOLE_MSG;
  check_ucx(ucp_worker_set_am_recv_handler(use(), &params), "UCX takes no message handler");
}

// --- the lock and the threads

bool UcxWorker::progress() {
  return ucp_worker_progress(use()) != 0;
}

bool UcxWorker::try_arm() {
  if (armed_) return true;
  // Progress comes first: UCX arms even if it has left work of its own for the next progress call.
  if (progress()) {
    busy_rounds_ = 0;
    return false;
  }
  armed_ = ucp_worker_arm(worker_.get()) == UCS_OK;
  if (armed_)
    busy_rounds_ = 0;
  else if (++busy_rounds_ >= kBusyRounds)
    // Callers loop until this function succeeds, so it claims to: the progress thread polls
    // instead.
    armed_ = cannot_arm_ = true;
  return armed_;
}

void UcxWorker::unlock() {
  hand_over_work();
  if (is_polled_) {
    request_yield();
  } else if (!is_yielding_) {
    while (!try_arm()) continue;
    hand_over_if_busy();
  }
  const bool tells = notify_watcher();
  mutex_.unlock();
  if (tells) changed_.notify_all();
}

bool UcxWorker::has_unnotified() const {
  return notified_sequence_ != sequence_ && (is_watched_ || sleepers_ > 0);
}

bool UcxWorker::notify_watcher() {
  const bool is_new = std::exchange(notified_sequence_, sequence_) != sequence_;
  if (is_new && is_watched_) signal(notify_fd_);
  return is_new && sleepers_ > 0;
}

void UcxWorker::wait(Clock::time_point deadline) {
  const std::uint64_t seen = sequence_;
  Clock::time_point now = Clock::now();
  auto end = std::min(deadline, now + spin_);
  for (int polls = 1; now < end; now = Clock::now()) {
    if (progress()) end = std::min(deadline, now + spin_);
    is_polled_ = true;
    if (sequence_ != seen) return;
    // Not by unlock(): this thread goes on polling, so the worker need not be armed.
    if (polls++ % kPollsPerTurn == 0) {
      hand_over_work();
      mutex_.unlock();
      mutex_.lock();
    }
  }
  is_polled_ = false;
  // A progress thread that yields arms the worker once it is woken; if none yields, this thread
  // must.
  if (is_yielding_) wake_progress_thread();
  while (!is_yielding_ && !try_arm())
    if (sequence_ != seen) return;
  hand_over_if_busy();
  // The progress thread may have notified while the lock was free between two polls.
  if (sequence_ != seen) return;
  hand_over_work();
  std::unique_lock<HandoffMutex> lock(mutex_, std::adopt_lock);
  // At most an hour, on which no clock overflows: wait() may return for no reason, so callers loop.
  deadline = std::min(deadline, Clock::now() + std::chrono::hours(1));
  if (is_watched_) {
    ++sleepers_;
    changed_.wait_until(lock, deadline, [this, seen] { return sequence_ != seen; });
    --sleepers_;
  } else {
    watch(lock, deadline);
  }
  lock.release();
}

/// The event wakes both this thread and the progress thread; the first to take the lock handles the
/// message. Only one thread may sleep here: if several did, every message would wake each of them.
void UcxWorker::watch(std::unique_lock<HandoffMutex>& lock, Clock::time_point deadline) {
  const bool tells = notify_watcher();  // no thread watches yet: only the sleepers are told
  is_watched_ = true;
  lock.unlock();
  if (tells) changed_.notify_all();
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
  std::array<pollfd, 2> fds{{{event_fd_, POLLIN, 0}, {notify_fd_.get(), POLLIN, 0}}};
  ::poll(fds.data(), fds.size(), static_cast<int>(std::max<std::int64_t>(left, 0)));
  lock.lock();
  is_watched_ = false;
  if (fds[1].revents != 0) clear(notify_fd_);
  if (fds[0].revents != 0) progress();
}

void UcxWorker::hand_over_if_busy() {
  if (cannot_arm_) wake_progress_thread();
}

bool UcxWorker::do_work(std::unique_lock<HandoffMutex>& lock) {
  if (!work_offered_ || helpers_ > 0) return false;
  if (!work_->begin()) {
    work_offered_ = false;
    return false;
  }
  lock.unlock();
  work_->run();
  lock.lock();
  work_->end();
  return true;
}

void UcxWorker::hand_over_work() {
  if (!work_offered_ || helpers_ > 0 || std::exchange(work_handed_over_, true)) return;
  wake_progress_thread();
}

void UcxWorker::request_yield() {
  if (is_yielding_ || std::exchange(yield_requested_, true)) return;
  wake_progress_thread();
}

void UcxWorker::wake_progress_thread() {
  signal(wake_fd_);
}

void UcxWorker::run() {
  std::unique_lock<HandoffMutex> lock(mutex_);
  while (!stopping_) {
    if (has_unnotified()) {  // a thread that has got what it waits for goes on at once
      const bool tells = notify_watcher();
      lock.unlock();
      if (tells) changed_.notify_all();
      lock.lock();
    } else if (const bool moved = progress(); do_work(lock) || moved) {
      continue;
    } else if (std::exchange(is_polled_, false)) {
      yield_to_poller(lock);
    } else if (try_arm() && !has_unnotified()) {
      sleep(lock);
    }
  }
}

void UcxWorker::sleep(std::unique_lock<HandoffMutex>& lock) {
  const int limit_ms = cannot_arm_ ? kLookInMs : -1;
  lock.unlock();
  std::array<pollfd, 2> fds{{{event_fd_, POLLIN, 0}, {wake_fd_.get(), POLLIN, 0}}};
  ::poll(fds.data(), fds.size(), limit_ms);
  lock.lock();
  if (fds[1].revents != 0) clear_wake_up();
  // try_arm() only claimed to have armed the worker: the next call tries again.
  if (std::exchange(cannot_arm_, false)) armed_ = false;
}

void UcxWorker::yield_to_poller(std::unique_lock<HandoffMutex>& lock) {
  is_yielding_ = true;
  lock.unlock();
  pollfd fd{wake_fd_.get(), POLLIN, 0};
  ::poll(&fd, 1, kYieldMs);
  lock.lock();
  if (fd.revents != 0) clear_wake_up();
  is_yielding_ = false;
}

void UcxWorker::clear_wake_up() {
  yield_requested_ = work_handed_over_ = false;
  clear(wake_fd_);
}

}  // namespace troupe::transport
