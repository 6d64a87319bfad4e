// No device is called by a thread that holds the link's lock: a call may wait for the device, and
// the device for a thread of its own that wants the lock.

#include <array>
#include <boost/test/unit_test.hpp>
#include <future>
#include <memory>

#include "tests/contract/messages.h"
#include "tests/support/expect_error.h"
#include "tests/support/watched_device.h"
#include "transport/collectives/staged_group.h"
#include "transport/edges/edge_channel.h"

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(device_calls_test)

namespace {

using tensor::CollectiveCall;
using tensor::Tensor;
using transport::NamedWork;
using transport::WaitNote;

/// A group of one host whose collectives are done when the test says so.
class SlowHosts final : public tensor::ProcessGroup {
 public:
  explicit SlowHosts(HeldLink& link) : link_(link) {}

  void finish() {
    is_finished_ = true;
    tell();
  }
  int size() const override { return 1; }
  int member() const override { return 0; }
  std::unique_ptr<tensor::Work> start(tensor::Stream&, const CollectiveCall&) override {
    return std::make_unique<HostWork>(*this);
  }
  void abort(const std::string&) override {}
  std::string fault() const override { return ""; }

 private:
  class HostWork final : public NamedWork {
   public:
    explicit HostWork(SlowHosts& hosts) : hosts_(hosts) {}
    bool done() const override { return hosts_.is_finished_; }
    Stage stage() const override { return done() ? Stage::done : Stage::among_hosts; }
    void wait() override {}
    void wait(tensor::Stream&) override {}
    double finished_s() const override { return 0; }
    bool failed() const override { return false; }
    void announce() override { hosts_.tell(); }
    WaitNote note() const override {
      return {.what = WaitNote::What::collective, .operation = "a sum", .group = &hosts_.name_};
    }

   private:
    SlowHosts& hosts_;
  };

  void tell() {
    const std::lock_guard lock(link_);
    link_.notify();
  }

  HeldLink& link_;
  const std::string name_ = "hosts";
  std::atomic<bool> is_finished_{false};
};

/// Rank 0 of two, with an edge to itself, on a device whose stream waits for the test.
struct Watched {
  Watched() {
    link.report_to(channel.events());
    open(1);
    static_cast<AsyncStream&>(*stream).submit_mark([&] { gate.get_future().wait(); });
    event->record(*stream);
  }
  ~Watched() { BOOST_TEST(device.calls_with_lock() == 0); }

  void open(std::uint32_t configuration) {
    auto edges = two_way({16}, 2);
    edges.push_back({.from = 0, .to = 0, .chunk = 2, .shape = {16}, .slots = 2});
    channel.open({.run = kRun,
                  .configuration = configuration,
                  .rank = 0,
                  .edges = edges,
                  .device = &device});
  }

  static constexpr MessageKey kOwn{.step = 1, .microbatch = 0, .chunk = 2};
  static constexpr Needs kNever{.message = MessageKey{.direction = Direction::backward}};

  HeldLink link;
  WatchedDevice device{link};
  transport::WaitBoard board;
  transport::EdgeChannel channel{link, board};
  std::promise<void> gate;
  std::unique_ptr<tensor::Stream> stream = device.make_stream();
  std::unique_ptr<tensor::Event> event = device.make_event();
};

/// A sum of the one host that is under way on the device.
struct WatchedSum : Watched {
  WatchedSum()
      : memory(device.allocate(64, tensor::MemoryKind::device)),
        group(std::unique_ptr<tensor::ProcessGroup>(hosts), device, "shards"),
        work(group.all_reduce(*stream, memory.view(tensor::DType::f32, {16}))),
        sum{.collective = work.get()} {}

  SlowHosts* const hosts = new SlowHosts(link);  // `group` owns it
  const tensor::Buffer memory;
  transport::StagedGroup group;
  std::unique_ptr<tensor::Work> work;
  const Needs sum;
};

}  // namespace

BOOST_FIXTURE_TEST_CASE(messages_wait_for_events, Watched) {
  const int before = device.calls();
  channel.send(forth(1), channel.acquire(forth(1)), *event);
  channel.send(kOwn, channel.acquire(kOwn), *event);
  channel.receive(kOwn);
  channel.release(kOwn, *event);
  gate.set_value();
  channel.settle();
  BOOST_TEST(device.calls() > before);
}

BOOST_FIXTURE_TEST_CASE(a_wait_for_a_message_asks_whether_the_device_has_failed, Watched) {
  channel.send(forth(1), channel.acquire(forth(1)), *event);
  device.fail();
  expect_error(ErrorKind::internal, {"the watched device has failed"},
               [&] { channel.receive(back(1)); });
  gate.set_value();
  channel.settle();
}

BOOST_FIXTURE_TEST_CASE(a_wait_for_a_collective_brings_its_results, WatchedSum) {
  BOOST_TEST(!channel.ready(sum));
  auto sleeper = runner([&] { channel.wait_for_either(sum, kNever); });
  until([&] { return waits_for(channel, "all-reduce"); });
  gate.set_value();
  until([&] { return waits_for(channel, "a sum"); });
  hosts->finish();
  sleeper.get();
  BOOST_TEST(channel.ready(sum));
}

BOOST_FIXTURE_TEST_CASE(a_wait_for_a_collective_asks_whether_the_device_has_failed, WatchedSum) {
  device.fail();
  expect_error(ErrorKind::internal, {"the watched device has failed"},
               [&] { channel.wait_for_either(sum, kNever); });
  gate.set_value();
}

BOOST_FIXTURE_TEST_CASE(buffers_of_the_device_are_taken_and_given_back, Watched) {
  for (const std::uint32_t configuration : {2u, 3u}) {
    const int before = device.calls();
    open(configuration);
    BOOST_TEST(device.calls() >= before + 2);  // buffers come, and those of before go
  }
  gate.set_value();
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test
