#include "actors/worker/step/action_clock.h"

#include <boost/test/unit_test.hpp>

#include "tests/support/null_device.h"

namespace troupe::actors {

BOOST_AUTO_TEST_SUITE(action_clock_test)

namespace {

/// A device whose timed events are reached at the times that the test sets, in the order in which
/// they are made.
class ScriptedDevice final : public tensor::Device {
 public:
  explicit ScriptedDevice(std::vector<double> times) : times_(std::move(times)) {}
  std::unique_ptr<tensor::Event> make_timed_event() override {
    return std::make_unique<TimedEvent>(times_.at(next_++));
  }
  tensor::Buffer allocate(std::size_t bytes, tensor::MemoryKind kind) override {
    return null_.allocate(bytes, kind);
  }
  std::unique_ptr<tensor::Stream> make_stream() override { return null_.make_stream(); }
  std::unique_ptr<tensor::Event> make_event() override { return null_.make_event(); }
  bool host_reads_memory() const override { return true; }
  tensor::Ops& ops() override { return null_.ops(); }
  std::unique_ptr<tensor::Linear> make_linear(const tensor::LinearShape& shape) override {
    return null_.make_linear(shape);
  }
  std::unique_ptr<tensor::Attention> make_attention(const tensor::AttentionShape& shape) override {
    return null_.make_attention(shape);
  }
  std::unique_ptr<tensor::CachedAttention> make_cached_attention(
      const tensor::CachedAttentionShape& shape) override {
    return null_.make_cached_attention(shape);
  }

 private:
  struct TimedEvent final : tensor::Event {
    explicit TimedEvent(double at) : at_(at) {}
    void record(tensor::Stream&) override {}
    void wait(tensor::Stream&) override {}
    void synchronize() override {}
    bool done() const override { return true; }
    void on_reached(void (*call)(void*), void* argument) override { call(argument); }
    double reached_s() const override { return at_; }
    double at_;
  };

  test::NullDevice null_;
  const std::vector<double> times_;
  std::size_t next_ = 0;
};

}  // namespace

BOOST_AUTO_TEST_CASE(time_in_which_two_streams_ran_counts_once) {
  // Begin and end of each piece: 0..2, 1..3 beside it, 5..9 with 6..7 within it.
  ScriptedDevice device({0, 2, 1, 3, 5, 9, 6, 7});
  const auto stream = device.make_stream();
  ActionClock clock(device);
  for (std::size_t action = 0; action < 4; ++action) {
    clock.begin(action, *stream);
    BOOST_TEST(clock.end(*stream) == action);
  }
  const auto& pieces = clock.read();
  BOOST_TEST(pieces.at(1).seconds() == 2.0);
  BOOST_TEST(clock.busy_s() == 7.0);
}

BOOST_AUTO_TEST_CASE(pieces_of_two_streams_may_begin_in_another_order_than_their_numbers) {
  ScriptedDevice device({4, 6, 0, 1, 0.5, 5});
  const auto stream = device.make_stream();
  ActionClock clock(device);
  for (std::size_t action = 0; action < 3; ++action) {
    clock.begin(action, *stream);
    clock.end(*stream);
  }
  clock.read();
  BOOST_TEST(clock.busy_s() == 6.0);
}

BOOST_AUTO_TEST_CASE(waits_within_a_piece_are_not_busy) {
  ScriptedDevice device({0, 4});
  const auto stream = device.make_stream();
  ActionClock clock(device);
  clock.begin(0, *stream);
  clock.end(*stream, 1.5);
  BOOST_TEST(clock.read().at(0).waited_s == 1.5);
  BOOST_TEST(clock.busy_s() == 2.5);
}

BOOST_AUTO_TEST_CASE(a_step_uses_the_events_of_the_one_before) {
  ScriptedDevice device({0, 1});  // no time for a third event
  const auto stream = device.make_stream();
  ActionClock clock(device);
  for (int step = 0; step < 3; ++step) {
    clock.clear();
    clock.begin(0, *stream);
    clock.end(*stream);
    BOOST_TEST(clock.read().size() == 1u);
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::actors
