#include "transport/collectives/staged_group.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <utility>

#include "tensor/device/ops.h"
#include "tensor/errors/error.h"
#include "transport/edges/named_wait.h"

namespace troupe::transport {

using tensor::CollectiveCall;
using tensor::Operation;
using tensor::Stream;
using tensor::Tensor;
using tensor::Work;

namespace {

constexpr std::size_t kAlignment = 256;

std::size_t rounded_up(std::size_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

}  // namespace

/// The stream of a group of hosts, whose tensors are complete when its collectives begin.
class StagedGroup::HostStream final : public Stream {
 public:
  explicit HostStream(tensor::Device& device) : device_(device) {}
  tensor::Device& device() override { return device_; }
  void synchronize() override {}

 private:
  tensor::Device& device_;
};

/// A collective that is under way, or memory for one. Deleting the handle returns it to the group.
class StagedGroup::Staged final : public NamedWork {
 public:
  explicit Staged(StagedGroup& of)
      : group(of), copied_in(of.device_.make_event()), copied_out(of.device_.make_timed_event()) {}
  static void operator delete(Staged* self, std::destroying_delete_t) {
    self->group.take_back(*self);
  }

  bool done() const override {
    if (has_fault.load(std::memory_order_acquire)) return true;
    const Work* const host = begun.load(std::memory_order_acquire);
    if (!host) static_cast<void>(copied_in->done());  // throws if the device has failed
    if (!host || !host->done()) return false;
    if (!failed()) finish();
    return true;
  }
  Stage stage() const override {
    if (has_results || has_fault.load(std::memory_order_acquire)) return Stage::done;
    const Work* const host = begun.load(std::memory_order_acquire);
    if (!host || !host->done()) return Stage::among_hosts;
    return failed() ? Stage::done : Stage::at_device;
  }
  bool failed() const override {
    if (has_fault.load(std::memory_order_acquire)) return true;
    const auto* const named = dynamic_cast<const NamedWork*>(begun.load(std::memory_order_acquire));
    return named && named->failed();
  }
  void wait() override {
    group.wait_begun(*this);
    work->wait();
    finish();
  }
  void wait(Stream& stream) override {
    group.wait_begun(*this);
    work->wait();
    if (!is_copied_back) return group.copy_back(*this, stream);
    copied_out->wait(stream);
  }
  double finished_s() const override { return copied_out->reached_s(); }
  WaitNote note() const override {
    const Work* const host = begun.load(std::memory_order_acquire);
    if (const auto* named = dynamic_cast<const NamedWork*>(host)) return named->note();
    WaitNote note;
    note.what = WaitNote::What::collective;
    note.operation = name_of(call.operation);
    note.group = &group.name_;
    return note;
  }

  /// Copies the results of a collective that is done, and waits for the copies, which no other op
  /// delays.
  void finish() const {
    if (has_results) return;
    if (!is_copied_back) group.copy_back(*this, *group.stream_);
    copied_out->synchronize();
    has_results = true;
  }

  StagedGroup& group;
  CollectiveCall call;          ///< among the hosts, with the tensors and counts below
  std::vector<Tensor> in, out;  ///< in pinned memory
  std::vector<std::int64_t> send_counts, receive_counts;
  std::vector<Tensor> results;  ///< where `out` goes on the device
  tensor::Buffer memory;        ///< pinned
  const std::unique_ptr<tensor::Event> copied_in, copied_out;
  bool is_ready = false;                ///< the tensors are in pinned memory
  mutable bool is_copied_back = false;  ///< the copy of the results has been queued
  mutable bool has_results = false;     ///< and has run, as the thread that waits has found out
  std::unique_ptr<Work> work;
  std::exception_ptr fault;  ///< why it could not begin
  std::atomic<const Work*> begun{nullptr};
  std::atomic<bool> has_fault{false};
};

void StagedGroup::Destroy::operator()(Staged* staged) const {
  staged->~Staged();
  ::operator delete(staged);
}

StagedGroup::StagedGroup(std::unique_ptr<tensor::ProcessGroup> hosts, tensor::Device& device,
                         const std::string& name)
    : hosts_(std::move(hosts)),
      device_(device),
      name_(name),
      host_stream_(std::make_unique<HostStream>(device)),
      stream_(device.make_stream()) {}

StagedGroup::~StagedGroup() {
  TROUPE_ASSERT(idle_.size() == all_.size());
  try {
    for (const auto& staged : all_) staged->copied_out->synchronize();  // out of its memory
  } catch (const Error&) {
    // The device has failed, and copies no more.
  }
}

// --- from the device to the hosts

/// Memory for a collective.
StagedGroup::Staged& StagedGroup::take() {
  if (idle_.empty()) {
    all_.emplace_back(new Staged(*this));
    idle_.push_back(all_.back().get());
  }
  Staged& staged = *idle_.back();
  idle_.pop_back();
  return staged;
}

std::unique_ptr<Work> StagedGroup::start(Stream& stream, const CollectiveCall& call) {
  Staged& staged = take();
  try {
    copy_in(stream, call, staged);
  } catch (...) {
    idle_.push_back(&staged);
    throw;
  }
  {
    const std::lock_guard lock(mutex_);
    due_.push_back(&staged);
  }
  staged.copied_in->on_reached(
      [](void* of) {
        auto& reached = *static_cast<Staged*>(of);
        reached.group.on_copied(reached);
      },
      &staged);
  return std::unique_ptr<Work>(&staged);
}

/// Makes of a call with tensors of the device one with tensors of pinned memory.
void StagedGroup::copy_in(Stream& stream, const CollectiveCall& call, Staged& staged) {
  std::size_t bytes = 0;
  for (const auto& tensors : {call.in, call.out})
    for (const Tensor& x : tensors) bytes += rounded_up(x.num_bytes());
  staged.copied_out->wait(stream);  // results of the collective before
  if (staged.memory.bytes() < bytes) {
    staged.copied_out->synchronize();
    pinned_bytes_ -= static_cast<std::int64_t>(staged.memory.bytes());
    staged.memory = {};
    staged.memory = device_.allocate(bytes, tensor::MemoryKind::pinned);
    pinned_bytes_ += static_cast<std::int64_t>(bytes);
  }
  std::size_t offset = 0;
  const auto place = [&](const Tensor& x) {
    const Tensor placed = staged.memory.view(x.dtype, x.shape, offset);
    offset += rounded_up(x.num_bytes());
    return placed;
  };
  const auto copy = [&](const Tensor& x, const Tensor& placed) {
    if (x.num_elements() > 0) device_.ops().copy(stream, x, placed);
  };
  const bool in_place = call.operation == Operation::all_reduce ||
                        (call.operation == Operation::broadcast && call.root == member());
  staged.in.clear();
  staged.out.clear();
  for (const Tensor& x : call.in) copy(x, staged.in.emplace_back(place(x)));
  for (const Tensor& x : call.out) {
    staged.out.push_back(place(x));
    if (in_place) copy(x, staged.out.back());
  }
  staged.results.assign(call.out.begin(), call.out.end());
  staged.send_counts.assign(call.send_counts.begin(), call.send_counts.end());
  staged.receive_counts.assign(call.receive_counts.begin(), call.receive_counts.end());
  staged.call = {.operation = call.operation,
                 .reduction = call.reduction,
                 .root = call.root,
                 .in = staged.in,
                 .out = staged.out,
                 .send_counts = staged.send_counts,
                 .receive_counts = staged.receive_counts};
  staged.is_ready = staged.is_copied_back = staged.has_results = false;
  staged.copied_in->record(stream);
}

/// Begins what can begin, in the order of the calls, which is the same on every member.
void StagedGroup::on_copied(Staged& staged) {
  const std::lock_guard lock(mutex_);
  staged.is_ready = true;
  while (!due_.empty() && due_.front()->is_ready) {
    Staged& next = *due_.front();
    due_.pop_front();
    try {
      next.work = hosts_->start(*host_stream_, next.call);
      next.begun.store(next.work.get(), std::memory_order_release);
      // It may have ended before: whoever asked done() meanwhile was told that it had not begun.
      if (auto* const named = dynamic_cast<NamedWork*>(next.work.get())) named->announce();
    } catch (...) {
      next.fault = std::current_exception();
      next.has_fault.store(true, std::memory_order_release);
      hosts_->abort("a collective could not begin");  // wakes who waits for it
    }
  }
  begun_.notify_all();
}

// --- from the hosts to the device

/// Waits until the tensors have been copied. A device that has failed calls nobody, but says so
/// when it is asked: without the lock, which its own thread takes.
void StagedGroup::wait_begun(Staged& staged) {
  std::unique_lock lock(mutex_);
  while (!begun_.wait_for(lock, std::chrono::seconds(1),
                          [&] { return staged.begun.load() || staged.has_fault.load(); })) {
    lock.unlock();
    static_cast<void>(staged.copied_in->done());
    lock.lock();
  }
  if (staged.has_fault.load()) std::rethrow_exception(staged.fault);
}

/// Queues the copies of the results.
void StagedGroup::copy_back(const Staged& staged, Stream& stream) {
  for (std::size_t i = 0; i < staged.out.size(); ++i)
    if (staged.out[i].num_elements() > 0)
      device_.ops().copy(stream, staged.out[i], staged.results[i]);
  staged.copied_out->record(stream);
  staged.is_copied_back = true;
}

/// Ends a collective whose handle is gone. Its results are there if it was done.
void StagedGroup::take_back(Staged& staged) {
  try {
    wait_begun(staged);
    static_cast<void>(staged.done());
  } catch (const std::exception&) {
    // It has failed; nobody waits for the reason, which is that of the group.
  }
  staged.begun.store(nullptr);
  staged.has_fault.store(false);
  staged.fault = nullptr;
  staged.work.reset();
  idle_.push_back(&staged);
}

}  // namespace troupe::transport
