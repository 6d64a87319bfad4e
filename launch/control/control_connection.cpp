#include "launch/control/control_connection.h"

#include <poll.h>

#include <algorithm>
#include <array>
#include <utility>

#include "launch/control/event_json.h"

namespace troupe::launch {
namespace {

/// The number of texts that are kept. A reader that keeps up is never further behind.
constexpr std::size_t kTexts = 64;
constexpr std::size_t kEventsPerFrame = 64;

}  // namespace

const std::string& EventTexts::of(const actors::RunEvent& event) {
  const auto known = std::ranges::find(newest_, event.sequence, &Entry::sequence);
  if (known != newest_.end()) return known->text;
  if (newest_.size() >= kTexts) newest_.pop_front();
  newest_.push_back({event.sequence, to_text(to_json(event))});
  return newest_.back().text;
}

EventFeed::EventFeed(std::unique_ptr<actors::Subscription> subscription, std::string who)
    : subscription_(std::move(subscription)), who_(std::move(who)) {}

void EventFeed::grant(std::uint64_t frames) {
  credits_ = std::min(kMaxCredits, credits_ + std::min(frames, kMaxCredits));
}

std::string EventFeed::next_frame(EventTexts& texts) {
  if (credits_ == 0) return "";
  if (taken_.empty()) {
    auto batch = subscription_->take(kEventsPerFrame);
    taken_.assign(batch.events.begin(), batch.events.end());
    unreported_ += batch.dropped;
  }
  const std::string events = next_events(texts);
  if (events.empty() && unreported_ == 0) return "";
  --credits_;
  dropped_ += unreported_;
  const std::string text = "{\"events\":[" + events +
                           "],\"dropped\":" + std::to_string(std::exchange(unreported_, 0)) + "}";
  return to_frame(std::string_view(text));
}

std::string EventFeed::next_events(EventTexts& texts) {
  std::string events;
  while (!taken_.empty()) {
    const std::string& text = texts.of(*taken_.front());
    if (text.size() > kMaxFrameBytes)
      ++unreported_;
    else if (!events.empty() && events.size() + text.size() > kMaxFrameBytes)
      break;
    else
      events += (events.empty() ? "" : ",") + text;
    taken_.pop_front();
  }
  return events;
}

short ControlConnection::wanted_events() const {
  if (link_.session && !link_.session->is_trusted()) return link_.session->awaited();
  if (out_.empty()) return POLLIN;
  return static_cast<short>(feed ? POLLIN | POLLOUT : POLLOUT);
}

bool ControlConnection::read() {
  std::array<char, actors::TlsSession::kRecordBytes> bytes;
  const auto got = link_.read(bytes.data(), bytes.size());
  if (got) in_.add({bytes.data(), *got});
  return got.has_value();
}

bool ControlConnection::write() {
  const auto put = link_.write(out_.data(), out_.size());
  if (put) out_.erase(0, *put);
  return put.has_value();
}

bool ControlConnection::feed_events(EventTexts& texts) {
  while (out_.empty()) {
    out_ = feed->next_frame(texts);
    if (out_.empty()) return true;
    if (!write()) return false;
  }
  return true;
}

}  // namespace troupe::launch
