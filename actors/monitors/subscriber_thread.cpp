#include "actors/monitors/subscriber_thread.h"

#include <exception>
#include <utility>

namespace troupe::actors {
namespace {

constexpr std::size_t kBatch = 256;
constexpr std::size_t kCapacity = 16384;

}  // namespace

SubscriberThread::SubscriberThread(Hub& hub, std::string name, EventMask kinds, Consume consume)
    : hub_(hub),
      name_(std::move(name)),
      consume_(std::move(consume)),
      subscription_(hub.subscribe({.kinds = kinds, .capacity = kCapacity})),
      thread_([this] { loop(); }) {}

SubscriberThread::~SubscriberThread() {
  subscription_->close();
  thread_.join();
}

void SubscriberThread::loop() {
  try {
    for (bool open = true; open;) {
      subscription_->wait(std::chrono::hours(1));
      const Subscription::Batch batch = subscription_->take(kBatch);
      if (!batch.events.empty() || batch.dropped > 0) consume_(batch);
      open = !batch.closed;
    }
  } catch (const std::exception& e) {
    subscription_->close();
    hub_.publish({.body = Note{.text = "monitor " + name_ + " has ended: " + e.what()}});
  }
}

}  // namespace troupe::actors
