#include "actors/monitors/hub.h"

#include <atomic>
#include <boost/test/unit_test.hpp>
#include <latch>
#include <random>
#include <thread>

#include "actors/monitors/subscriber_thread.h"
#include "tests/support/seed.h"

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(hub_test)

namespace {

using namespace actors;

RunEvent step_event(std::int64_t step) {
  return {.step = step, .body = StepCommitted{.report = {.step = step}}};
}

}  // namespace

BOOST_AUTO_TEST_CASE(every_kind_has_a_name_of_its_own) {
  for (std::size_t i = 0; i < kNumEventKinds; ++i)
    for (std::size_t j = 0; j < i; ++j) BOOST_TEST(kEventNames[i] != kEventNames[j]);
  BOOST_TEST(kind_name({.body = StepCommitted{}}) == "step");
  BOOST_TEST(kind_name({.body = FailureDetected{}}) == "failure");
  BOOST_TEST(kind_name({.body = Rescaled{}}) == "rescaled");
  BOOST_TEST(kind_name({.body = RunEnded{}}) == "ended");
}

BOOST_AUTO_TEST_CASE(a_subscriber_gets_the_kinds_it_asked_for_in_order) {
  Hub hub;
  const auto all = hub.subscribe({});
  const auto notes = hub.subscribe({.kinds = mask_of<Note>()});
  hub.publish(step_event(1));
  hub.publish({.body = Note{.text = "hello"}});
  hub.publish(step_event(2));
  const auto got = all->take(10);
  BOOST_REQUIRE(got.events.size() == 3u);
  BOOST_TEST(got.dropped == 0u);
  for (std::size_t i = 0; i < 3; ++i) BOOST_TEST(got.events[i]->sequence == i + 1);
  BOOST_TEST(got.events[0]->time > 1e9);
  const auto few = notes->take(10);
  BOOST_REQUIRE(few.events.size() == 1u);
  BOOST_TEST(std::get<Note>(few.events[0]->body).text == "hello");
  BOOST_TEST(few.events[0].get() == got.events[1].get());  // shared, not copied
}

/// The next step is asked for the samples that are still missing.
BOOST_AUTO_TEST_CASE(a_tap_is_told_of_its_own_tensors_until_it_has_its_samples) {
  Hub hub;
  const TapRequest request{.from = 0, .to = 1, .every = 2, .samples = 3};
  const auto all = hub.subscribe({});
  const auto tap = hub.subscribe({.kinds = mask_of<TensorTapped, Note>(), .tap = request});
  const auto sent = [&](std::int64_t step, int to, int microbatch) {
    hub.publish(
        {.step = step, .rank = 0, .body = TensorTapped{.to = to, .microbatch = microbatch}});
  };
  BOOST_TEST((hub.taps() == std::vector{request}));
  sent(4, 1, 0);
  sent(4, 2, 0);  // another edge
  sent(5, 1, 0);  // another step
  sent(4, 1, 1);
  BOOST_TEST_REQUIRE(hub.taps().size() == 1u);
  BOOST_TEST(hub.taps().front().samples == 1);
  sent(6, 1, 0);
  BOOST_TEST(hub.taps().empty());
  sent(6, 1, 1);
  hub.publish({.body = Note{.text = "hello"}});
  BOOST_TEST(tap->take(10).events.size() == 4u);
  BOOST_TEST(all->take(10).events.size() == 7u);
}

BOOST_AUTO_TEST_CASE(a_full_queue_drops_the_oldest_and_says_how_many) {
  Hub hub;
  const auto slow = hub.subscribe({.capacity = 4});
  for (int step = 1; step <= 10; ++step) hub.publish(step_event(step));
  auto batch = slow->take(3);
  BOOST_TEST(batch.dropped == 6u);
  BOOST_REQUIRE(batch.events.size() == 3u);
  BOOST_TEST(batch.events[0]->step == 7);
  batch = slow->take(3);
  BOOST_TEST(batch.dropped == 0u);  // reported once
  BOOST_REQUIRE(batch.events.size() == 1u);
  BOOST_TEST(batch.events[0]->step == 10);
  BOOST_TEST(hub.counts().dropped == 6u);
  BOOST_TEST(hub.counts().published == 10u);
}

BOOST_AUTO_TEST_CASE(the_hub_knows_what_is_wanted) {
  Hub hub;
  BOOST_TEST(!hub.wanted<ActionsTraced>());
  {
    const auto notes = hub.subscribe({.kinds = mask_of<Note>()});
    BOOST_TEST(!hub.wanted<ActionsTraced>());
    const auto tracer = hub.subscribe({.kinds = mask_of<ActionsTraced>()});
    BOOST_TEST(hub.wanted<ActionsTraced>());
    BOOST_TEST(hub.counts().subscribers == 2u);
  }
  BOOST_TEST(!hub.wanted<ActionsTraced>());
  BOOST_TEST(hub.counts().subscribers == 0u);
}

BOOST_AUTO_TEST_CASE(after_close_readers_take_what_is_queued_and_see_the_end) {
  auto hub = std::make_unique<Hub>();
  const auto reader = hub->subscribe({});
  hub->publish(step_event(1));
  hub->publish(step_event(2));
  hub->close();
  hub->publish(step_event(3));
  hub.reset();  // a subscription may outlive the hub
  reader->wait(std::chrono::hours(1));
  auto batch = reader->take(1);
  BOOST_TEST(batch.events.size() == 1u);
  BOOST_TEST(!batch.closed);
  batch = reader->take(5);
  BOOST_TEST(batch.events.size() == 1u);
  BOOST_TEST(batch.closed);
}

BOOST_AUTO_TEST_CASE(a_thread_hands_over_everything_before_it_ends) {
  Hub hub;
  std::vector<std::int64_t> seen;
  {
    const SubscriberThread thread(hub, "test", all_events(), [&](const Subscription::Batch& batch) {
      for (const auto& event : batch.events) seen.push_back(event->step);
    });
    for (int step = 0; step < 1000; ++step) hub.publish(step_event(step));
  }
  BOOST_REQUIRE(seen.size() == 1000u);
  for (int step = 0; step < 1000; ++step) BOOST_TEST(seen[static_cast<std::size_t>(step)] == step);
}

BOOST_AUTO_TEST_CASE(a_monitor_that_throws_ends_alone) {
  Hub hub;
  const auto others = hub.subscribe({.kinds = mask_of<Note>()});
  const SubscriberThread broken(
      hub, "broken", mask_of<StepCommitted>(),
      [](const Subscription::Batch&) { throw std::runtime_error("no paper"); });
  hub.publish(step_event(1));
  others->wait(std::chrono::minutes(1));
  const auto said = others->take(10);
  BOOST_REQUIRE(said.events.size() == 1u);
  const std::string text = std::get<Note>(said.events[0]->body).text;
  BOOST_TEST(text.find("broken") != std::string::npos);
  BOOST_TEST(text.find("no paper") != std::string::npos);
}

/// Publishers, readers that come and go, and readers that never read, all at once: the events that
/// a reader gets and those that it is told it lost add up to all events from its first one on.
BOOST_AUTO_TEST_CASE(readers_come_and_go_while_many_publish) {
  const std::uint64_t seed = fresh_seed();
  Hub hub;
  constexpr int kPublishers = 3, kEvents = 4000, kReaders = 4;
  const auto stuck = hub.subscribe({.capacity = 16});
  std::atomic<int> publishing = kPublishers;
  std::vector<std::jthread> threads;
  for (int p = 0; p < kPublishers; ++p)
    threads.emplace_back([&] {
      for (int i = 0; i < kEvents; ++i) hub.publish(step_event(i));
      --publishing;
    });
  std::atomic<bool> gap = false;
  for (int r = 0; r < kReaders; ++r)
    threads.emplace_back([&, r] {
      std::mt19937_64 random(seed + static_cast<std::uint64_t>(r));
      while (publishing > 0) {
        const auto reader = hub.subscribe({.capacity = 8});
        std::uint64_t next = 0;
        for (int k = 0; k < 20; ++k) {
          const auto batch = reader->take(1 + random() % 6);
          if (batch.events.empty()) continue;
          const std::uint64_t first = batch.events.front()->sequence;
          if (next != 0 && first != next + batch.dropped) gap = true;
          next = batch.events.back()->sequence + 1;
        }
      }
    });
  threads.clear();
  BOOST_TEST(!gap);
  BOOST_TEST(stuck->take(100).events.size() == 16u);
  BOOST_TEST(hub.counts().published == std::uint64_t{kPublishers} * kEvents);
  BOOST_TEST(hub.counts().subscribers == 1u);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test
