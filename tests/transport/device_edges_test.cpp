#include <boost/test/unit_test.hpp>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <set>

#include "tests/contract/messages.h"
#include "tests/support/expect_error.h"
#include "tests/support/reachable_device.h"
#include "transport/edges/edge_channel.h"
#include "transport/edges/memory_channel.h"

// Edges on devices: where their slots lie, what happens where a device cannot do what is asked, and
// what a channel takes from its peers.

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(device_edges_test)

namespace {

using namespace std::chrono_literals;
using namespace transport;

/// Two ranks whose devices may lack something.
struct Pair {
  ReachableDevice devices[2];
  MemoryNetwork network{2, true};

  Channel& channel(int rank) { return network.channel(rank); }
  void open(EdgeChoice choice, std::uint32_t configuration = 1) {
    for (int rank = 0; rank < 2; ++rank)
      channel(rank).open({.run = kRun,
                          .configuration = configuration,
                          .rank = rank,
                          .edges = two_way({3000}, 2),
                          .device = &devices[rank],
                          .choice = choice});
  }
  bool exchange() {
    bool ok = true;
    for (std::uint64_t step = 0; step < 10; ++step) {
      send_message(channel(0), forth(step));
      ok = receive_message(channel(1), forth(step)) && ok;
      send_message(channel(1), back(step));
      ok = receive_message(channel(0), back(step)) && ok;
    }
    return ok;
  }
  /// Of both ranks, once both have exchanged messages.
  std::set<EdgePlacement> placements() {
    std::set<EdgePlacement> all;
    for (int rank = 0; rank < 2; ++rank)
      for (const auto& [peer, placement] : channel(rank).counts().placements) {
        BOOST_TEST(peer == 1 - rank);
        all.insert(placement);
      }
    return all;
  }
};

}  // namespace

BOOST_AUTO_TEST_CASE(slots_lie_where_it_is_asked) {
  for (const auto& [choice, placement] : {std::pair{EdgeChoice::automatic, EdgePlacement::peer},
                                          {EdgeChoice::peer, EdgePlacement::peer},
                                          {EdgeChoice::staged, EdgePlacement::staged}}) {
    Pair pair;
    pair.open(choice);
    BOOST_TEST(pair.exchange());
    BOOST_TEST((pair.placements() == std::set{placement}));
  }
}

BOOST_AUTO_TEST_CASE(a_choice_may_change_with_the_configuration) {
  Pair pair;
  std::uint32_t configuration = 0;
  for (const EdgeChoice choice :
       {EdgeChoice::peer, EdgeChoice::staged, EdgeChoice::staged, EdgeChoice::peer}) {
    pair.open(choice, ++configuration);
    BOOST_TEST(pair.exchange());
    BOOST_TEST(pair.placements().size() == 1u);
  }
}

BOOST_AUTO_TEST_CASE(a_device_that_cannot_share_or_map_leaves_edges_staged) {
  for (bool ReachableDevice::*lack : {&ReachableDevice::can_share, &ReachableDevice::can_map}) {
    Pair pair;
    for (ReachableDevice& device : pair.devices) device.*lack = false;
    pair.open(EdgeChoice::peer);
    BOOST_TEST(pair.exchange());
    BOOST_TEST((pair.placements() == std::set{EdgePlacement::staged}));
  }
  Pair pair;  // one way is peer, the other one is not
  pair.devices[0].can_map = false;
  pair.open(EdgeChoice::peer);
  BOOST_TEST(pair.exchange());
  BOOST_TEST((pair.placements() == std::set{EdgePlacement::staged}));
}

BOOST_AUTO_TEST_CASE(payloads_travel_where_memory_cannot_be_pinned) {
  for (const int lacking : {0, 1}) {
    Pair pair;
    pair.devices[lacking].can_pin = false;
    pair.open(EdgeChoice::staged);
    BOOST_TEST(pair.exchange());
    BOOST_TEST((pair.placements() == std::set{EdgePlacement::staged}));
  }
}

BOOST_AUTO_TEST_CASE(training_state_stays_in_the_memory_of_the_host) {
  Pair pair;
  const std::vector<Edge> edges{
      {.from = 0, .to = 1, .chunk = 1, .direction = Direction::state, .shape = {64}}};
  for (int rank = 0; rank < 2; ++rank)
    pair.channel(rank).open({.run = kRun,
                             .configuration = 1,
                             .rank = rank,
                             .edges = edges,
                             .device = &pair.devices[rank]});
  BOOST_TEST(pair.placements().empty());
  const MessageKey key{.step = 1, .chunk = 1, .direction = Direction::state};
  send_message(pair.channel(0), key);
  BOOST_TEST(receive_message(pair.channel(1), key));
}

namespace {

/// A link whose peers are the test: it keeps what is sent, and reports what the test says.
class ScriptedLink final : public Link {
 public:
  void lock() override { mutex_.lock(); }
  void unlock() override { mutex_.unlock(); }
  void wait(std::unique_lock<Link>&, Clock::time_point deadline) override {
    std::unique_lock<std::mutex> lock(mutex_, std::adopt_lock);
    changed_.wait_until(lock, std::min(deadline, Clock::now() + 10ms));
    lock.release();
  }
  void notify() override { changed_.notify_all(); }
  bool shares_memory_with(int) override { return true; }
  std::shared_ptr<SlotMemory> allocate(int, std::size_t bytes) override {
    return make_shared_slots(bytes);
  }
  std::unique_ptr<MappedSlots> map(int, const SegmentName& name, std::size_t bytes) override {
    return map_slots(name, bytes);
  }
  void send(int, OutgoingTensor& tensor) override {
    sent_.push_back(*decode({tensor.header.data(), tensor.header_bytes}));
    events->on_departed(tensor);
    changed_.notify_all();
  }
  void send_control(int, const Header& header) override {
    sent_.push_back(header);
    changed_.notify_all();
  }

  /// The next message that the channel sends, once there is one.
  Header next() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return !sent_.empty(); });
    const Header header = sent_.front();
    sent_.pop_front();
    return header;
  }
  void arrive(int sender, decltype(Header::body) body, std::size_t payload_bytes = 0) {
    const std::lock_guard<Link> lock(*this);
    events->on_message({.run = kRun, .configuration = 1, .sender = sender, .body = std::move(body)},
                       payload_bytes);
  }
  LinkEvents* events = nullptr;

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Header> sent_;
};

/// One rank whose peer is the test.
struct Alone {
  ReachableDevice device;
  WaitBoard board;
  ScriptedLink link;
  EdgeChannel channel{link, board};

  explicit Alone(int rank, EdgeChoice choice = EdgeChoice::peer, bool on_cpu = false) {
    link.events = &channel.events();
    channel.open({.run = kRun,
                  .configuration = 1,
                  .rank = rank,
                  .edges = {edge},
                  .device = on_cpu ? nullptr : &device,
                  .choice = choice});
  }
  static inline const Edge edge = two_way({100}, 2).front();
  static EdgeId id() {
    return {.chunk = edge.chunk, .direction = edge.direction, .digest = digest(edge)};
  }
  static Grant grant(const SegmentName& segment, bool on_device) {
    return {.edge = id(),
            .dtype = edge.dtype,
            .shape = edge.shape,
            .slots = edge.slots,
            .segment = segment,
            .on_device = on_device};
  }
  void check_refused(const std::string& what) {
    BOOST_TEST(channel.counts().refused == 1u);
    expect_error(ErrorKind::unavailable, {"refused", what},
                 [&] { channel.ready({.message = {}, .buffer = {}}); });
  }
};

}  // namespace

BOOST_AUTO_TEST_CASE(slots_that_are_not_there_are_declined_and_granted_otherwise) {
  for (const SegmentName& nonsense :
       {SegmentName{}, SegmentName{.id = 1, .nonce = 2}, SegmentName{.id = INT64_MIN}}) {
    Alone sender(0);
    sender.link.arrive(1, Alone::grant(nonsense, true));
    const Header answer = sender.link.next();
    const auto* const decline = std::get_if<Decline>(&answer.body);
    BOOST_TEST_REQUIRE(decline);
    BOOST_TEST((decline->edge == Alone::id()));
    sender.link.arrive(1, Alone::grant(nonsense, false));  // no segment of this host: payloads
    send_message(sender.channel, forth(1));
    const Header message = sender.link.next();
    BOOST_TEST_REQUIRE(std::holds_alternative<TensorMessage>(message.body));
    BOOST_TEST((std::get<TensorMessage>(message.body).placement == Placement::payload));
  }
}

BOOST_AUTO_TEST_CASE(a_cpu_declines_slots_on_a_device_and_takes_others) {
  Alone sender(0, EdgeChoice::automatic, true);
  sender.link.arrive(1, Alone::grant({.id = 1, .nonce = 2}, true));
  const Header answer = sender.link.next();
  BOOST_TEST_REQUIRE(std::holds_alternative<Decline>(answer.body));
  BOOST_TEST((std::get<Decline>(answer.body).edge == Alone::id()));
  sender.link.arrive(1, Alone::grant({}, false));
  send_message(sender.channel, forth(1));
  const Header message = sender.link.next();
  BOOST_TEST_REQUIRE(std::holds_alternative<TensorMessage>(message.body));
  BOOST_TEST((std::get<TensorMessage>(message.body).placement == Placement::payload));
}

BOOST_AUTO_TEST_CASE(a_second_grant_is_refused_also_while_the_first_is_mapped) {
  Alone sender(0);
  sender.link.arrive(1, Alone::grant({}, false));
  sender.link.arrive(1, Alone::grant({}, false));
  sender.check_refused("a second grant from rank 1");
}

BOOST_AUTO_TEST_CASE(a_receiver_grants_other_slots_once_when_its_own_are_declined) {
  Alone receiver(1);
  const Header first = receiver.link.next();
  BOOST_TEST(std::get<Grant>(first.body).on_device);
  BOOST_TEST(fetch_descriptor(std::get<Grant>(first.body).segment).has_value());
  receiver.link.arrive(0, Decline{.edge = Alone::id()});
  const Header second = receiver.link.next();
  BOOST_TEST(!std::get<Grant>(second.body).on_device);
  BOOST_TEST(std::get<Grant>(second.body).segment.id != SegmentName::kNone);
  receiver.link.arrive(0, Decline{.edge = Alone::id()});
  receiver.check_refused("rank 0 declines slots of chunk 1");
}

BOOST_AUTO_TEST_CASE(what_cannot_be_declined_is_refused) {
  for (const EdgeChoice choice : {EdgeChoice::peer, EdgeChoice::staged}) {
    Alone receiver(1, choice);
    EdgeId id = Alone::id();
    if (choice == EdgeChoice::peer) ++id.digest;
    receiver.link.arrive(0, Decline{.edge = id});
    receiver.check_refused("rank 0 declines slots of chunk 1");
  }
}

BOOST_AUTO_TEST_CASE(a_payload_for_slots_on_a_device_is_refused) {
  Alone receiver(1);
  const std::size_t bytes = tensor_bytes(Alone::edge);
  receiver.link.arrive(0,
                       TensorMessage{.edge = Alone::id(),
                                     .dtype = Alone::edge.dtype,
                                     .shape = Alone::edge.shape,
                                     .bytes = bytes,
                                     .credit = std::nullopt},
                       bytes);
  receiver.check_refused("written into its slot on the device");
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test
