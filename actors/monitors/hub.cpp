#include "actors/monitors/hub.h"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <utility>

namespace troupe::actors {

static_assert(kNumEventKinds <= 64, "a mask of kinds is one word");

/// One subscriber's queue of events. The publisher and the subscriber hold its mutex for a few
/// instructions only.
struct Hub::Queue {
  explicit Queue(SubscribeOptions chosen) : options(std::move(chosen)) {}

  bool wants(const RunEvent& event) const {
    return options.kinds.test(event.body.index()) && (!options.tap || is_sample(event));
  }
  /// Whether an event is a tensor that matches the tap; true for events of other kinds.
  bool is_sample(const RunEvent& event) const {
    const auto* tensor = std::get_if<TensorTapped>(&event.body);
    return !tensor || (still_taps() &&
                       options.tap->names(event.rank, tensor->to, tensor->backward, event.step,
                                          tensor->microbatch) &&
                       (!options.tap->only_not_finite || tensor->summary.not_finite > 0));
  }
  bool still_taps() const {
    return options.tap && (options.tap->samples == 0 || sampled < options.tap->samples);
  }

  /// Queues an event. Returns how many older events were dropped for it.
  std::uint64_t push(const std::shared_ptr<const RunEvent>& event) {
    std::uint64_t lost = 0;
    {
      const std::lock_guard lock(mutex);
      if (closed) return 0;
      if (events.size() >= std::max<std::size_t>(options.capacity, 1)) {
        events.pop_front();
        ++dropped;
        lost = 1;
      }
      events.push_back(event);
    }
    tell();
    return lost;
  }
  void close() {
    {
      const std::lock_guard lock(mutex);
      closed = true;
    }
    tell();
  }
  void tell() {
    changed.notify_one();
    if (options.wake) options.wake();
  }

  const SubscribeOptions options;
  std::int64_t sampled = 0;  // tensors sampled so far; guarded by Queues::mutex
  std::mutex mutex;          // guards the members below
  std::deque<std::shared_ptr<const RunEvent>> events;
  std::uint64_t dropped = 0;  // events dropped since the last take()
  bool closed = false;
  std::condition_variable changed;
};

/// The queues of all subscribers. It outlives the hub as long as a subscription exists.
struct Hub::Queues {
  std::mutex mutex;  // guards the members below
  std::vector<std::shared_ptr<Queue>> all;
  Hub* hub = nullptr;  // null after the hub was destroyed
  std::uint64_t dropped = 0;
  std::uint32_t configuration = 0;  // configuration of the newest event that had a step
  std::int64_t step = 0;
  bool closed = false;

  void note_wanted() {
    if (!hub) return;
    EventMask any;
    for (const auto& queue : all) any |= queue->options.kinds;
    hub->wanted_.store(any.to_ullong(), std::memory_order_relaxed);
  }
};

Hub::Hub() : queues_(std::make_shared<Queues>()) {
  queues_->hub = this;
}

Hub::~Hub() {
  close();
  const std::lock_guard lock(queues_->mutex);
  queues_->hub = nullptr;
}

void Hub::publish(RunEvent event) {
  const auto begin = std::chrono::steady_clock::now();
  {
    const std::lock_guard lock(queues_->mutex);
    if (queues_->closed) return;
    event.sequence = published_.fetch_add(1, std::memory_order_relaxed) + 1;
    event.time =
        std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
    if (event.step >= 0) {
      queues_->configuration = event.configuration;
      queues_->step = event.step;
    }
    event.configuration = queues_->configuration;
    event.step = queues_->step;
    const auto shared = std::make_shared<const RunEvent>(std::move(event));
    const bool is_tensor = std::holds_alternative<TensorTapped>(shared->body);
    for (const auto& queue : queues_->all) {
      if (!queue->wants(*shared)) continue;
      if (is_tensor) ++queue->sampled;
      queues_->dropped += queue->push(shared);
    }
  }
  const auto spent = std::chrono::steady_clock::now() - begin;
  busy_ns_.fetch_add(static_cast<std::uint64_t>(
                         std::chrono::duration_cast<std::chrono::nanoseconds>(spent).count()),
                     std::memory_order_relaxed);
}

std::unique_ptr<Subscription> Hub::subscribe(SubscribeOptions options) {
  auto queue = std::make_shared<Queue>(std::move(options));
  const std::lock_guard lock(queues_->mutex);
  queue->closed = queues_->closed;
  queues_->all.push_back(queue);
  queues_->note_wanted();
  return std::unique_ptr<Subscription>(new Subscription(queues_, std::move(queue)));
}

std::vector<TapRequest> Hub::taps() const {
  if (!wanted<TensorTapped>()) return {};
  std::vector<TapRequest> taps;
  const std::lock_guard lock(queues_->mutex);
  for (const auto& queue : queues_->all) {
    if (!queue->still_taps()) continue;
    TapRequest tap = *queue->options.tap;
    if (tap.samples > 0) tap.samples -= queue->sampled;
    if (taps.size() < kMaxTaps && std::ranges::find(taps, tap) == taps.end()) taps.push_back(tap);
  }
  return taps;
}

void Hub::close() {
  const std::lock_guard lock(queues_->mutex);
  if (std::exchange(queues_->closed, true)) return;
  for (const auto& queue : queues_->all) queue->close();
}

Hub::Counts Hub::counts() const {
  const std::lock_guard lock(queues_->mutex);
  return {.subscribers = queues_->all.size(),
          .published = published_.load(std::memory_order_relaxed),
          .dropped = queues_->dropped,
          .busy_s = static_cast<double>(busy_ns_.load(std::memory_order_relaxed)) * 1e-9};
}

Subscription::Subscription(std::shared_ptr<Hub::Queues> queues, std::shared_ptr<Hub::Queue> queue)
    : queues_(std::move(queues)), queue_(std::move(queue)) {}

Subscription::~Subscription() {
  const std::lock_guard lock(queues_->mutex);
  std::erase(queues_->all, queue_);
  queues_->note_wanted();
}

void Subscription::close() {
  queue_->close();
}

Subscription::Batch Subscription::take(std::size_t max) {
  Batch batch;
  const std::lock_guard lock(queue_->mutex);
  auto& events = queue_->events;
  const auto end = events.begin() + static_cast<std::ptrdiff_t>(std::min(max, events.size()));
  batch.events.assign(std::make_move_iterator(events.begin()), std::make_move_iterator(end));
  events.erase(events.begin(), end);
  batch.dropped = std::exchange(queue_->dropped, 0);
  batch.closed = queue_->closed && events.empty();
  return batch;
}

void Subscription::wait(std::chrono::milliseconds timeout) {
  std::unique_lock lock(queue_->mutex);
  queue_->changed.wait_for(lock, timeout,
                           [this] { return queue_->closed || !queue_->events.empty(); });
}

}  // namespace troupe::actors
