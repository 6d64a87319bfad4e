#include <boost/test/unit_test.hpp>
#include <caf/actor_system.hpp>
#include <caf/scoped_actor.hpp>
#include <cstdint>
#include <future>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "actors/director/configuration_orders.h"
#include "actors/director/replica_actor.h"
#include "actors/messages/control_plane.h"
#include "actors/messages/message_checks.h"
#include "actors/tuning/step_meter.h"
#include "actors/worker/stage_actor.h"
#include "tests/support/number_extremes.h"
#include "tests/support/protocol_driver.h"
#include "tests/support/run_specs.h"

// Every message of the control plane with every number in it at its extremes, one at a time:
// through the director, a replica's actor and a stage's actor. No part of such a message is used,
// and the run goes on.

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(message_fuzz_test)

namespace {

using namespace actors;

constexpr ReplicaPart kPart{.configuration = 1,
                            .replica = 1,
                            .first_rank = 2,
                            .ranks_of_replica = 2,
                            .num_ranks = 4,
                            .num_chunks = 2,
                            .committed = 3};

const TracedActions kTraced{
    .configuration = 1,
    .step = 4,
    .rank = 2,
    .body = {
        .actions = {{.name = "1F0", .from = 0, .to = 1}},
        .collectives = {{.group = "replicas of stage 1", .operation = "all-reduce", .bucket = 1}}}};

bool is_mine(int rank) {
  return rank == 2 || rank == 3;
}

}  // namespace

BOOST_AUTO_TEST_CASE(no_answer_of_another_place_or_time_is_accepted) {
  int refused = 0, accepted = 0;
  const auto check = [&](const auto& message) {
    every_extreme(message, [&](const auto& changed) {
      if (!fault_in(changed, kPart).empty()) {
        ++refused;
        return;
      }
      ++accepted;
      BOOST_TEST(changed.configuration == 1u);
      BOOST_TEST(is_mine(changed.rank));
      if constexpr (requires { changed.step; }) BOOST_TEST(changed.step <= 4);
    });
  };
  BOOST_TEST(fault_in(kTraced, kPart) == "");
  check(kTraced);
  check(Ready{.configuration = 1, .rank = 2, .parameters = {1}});
  check(Copied{.configuration = 1, .step = 3, .rank = 2});
  check(Saved{.configuration = 1, .step = 3, .rank = 2});
  check(Evaluated{.configuration = 1, .step = 3, .rank = 2});
  const Tapped tapped{.configuration = 1, .step = 4, .rank = 2, .body = {.to = 3}};
  check(tapped);
  for (const std::size_t bins : {0, 1, TensorSummary::kBins + 1}) {
    Tapped changed = tapped;
    changed.body.summary.histogram.resize(bins);
    BOOST_TEST(fault_in(changed, kPart).starts_with("a histogram of"));
  }
  check(ParameterHistograms{
      .configuration = 1,
      .step = 4,
      .rank = 2,
      .body = {
          .rows = {{.tensor = "w", .whole = 2, .part = {.elements = 1, .counts = {{-3, 1}}}}}}});
  check(Prepared{.configuration = 1,
                 .step = 4,
                 .rank = 2,
                 .sources = {{.targets = 1}},
                 .squared_norms = {1},
                 .sent = {{.to = 3, .bytes = 1}},
                 .waited = {{.from = 3, .wait_s = 1}},
                 .collectives = {{.group = "replicas of stage 1", .count = 1, .bytes = 1}},
                 .large = {{.bucket = 1, .norm = 1}}});
  for (const char* name : {"a \"quoted\" group", "two\nlines", "back\\slash"})
    BOOST_TEST(
        fault_in(
            Prepared{.configuration = 1, .step = 4, .rank = 2, .collectives = {{.group = name}}},
            kPart) == "a group with an impossible name");
  BOOST_TEST(refused > 100);
  BOOST_TEST(accepted > 0);
}

BOOST_AUTO_TEST_CASE(a_meter_uses_no_action_that_there_is_not) {
  const RunSpec spec = small_run(2);
  StepMeter meter(first_shape(spec));
  every_extreme(kTraced, [&](TracedActions changed) {
    changed.body.complete = true;
    meter.add(changed);
    for (const char* name : {"2F0", "2147483647B0", "-1F0", "F", ""}) {
      changed.body.actions.front().name = name;
      meter.add(changed);
    }
  });
  for (std::int64_t step = 1; step < 40; ++step) meter.add(step, 1);
  meter.result();
}

/// Events as the actors make them from answers. Refused events leave everything as it was.
BOOST_AUTO_TEST_CASE(a_run_goes_on_whatever_the_director_hears) {
  Driver driver(small_run(2, 2));
  int refused = 0;
  const auto deliver = [&](const Event& event) {
    const auto committed = driver.protocol.committed();
    for (const Effect& effect : driver.on(event))
      if (const auto* report = std::get_if<ReportRefused>(&effect)) {
        ++refused;
        BOOST_TEST(!report->sender.empty());
        BOOST_TEST(driver.protocol.committed() == committed);
      }
  };
  const auto barrage = [&] {
    const std::uint64_t member = driver.workers.at(0);
    const Halted halted{.configuration = driver.configuration() + 9,
                        .incarnation = member,
                        .inventory = {.step = 1, .copies = {{.rank = 1, .step = 1}}}};
    every_extreme(halted, deliver);
    every_extreme(Warm{.order = 1, .incarnation = member, .rank = 0}, deliver);
    for (const int replica : {-1, 2, std::numeric_limits<int>::max()})
      for (const std::uint32_t configuration : {driver.configuration(), ~0u}) {
        deliver(ReplicaReady{.configuration = configuration, .replica = replica});
        deliver(ReplicaPrepared{.configuration = configuration,
                                .step = driver.protocol.committed() + 1,
                                .replica = replica});
        deliver(ReplicaCopied{.configuration = configuration, .step = 0, .replica = replica});
        deliver(ReplicaSaved{
            .configuration = configuration, .step = 0, .replica = replica, .error = ""});
        deliver(ReplicaEvaluated{.configuration = configuration, .step = 0, .replica = replica});
      }
    deliver(WorkerFailed{.incarnation = member, .configuration = ~0u, .message = "x"});
  };
  driver.on(Started{});
  barrage();
  for (int rank = 0; rank < 4; ++rank) driver.on(driver.joined(rank));
  barrage();
  driver.ready();
  barrage();
  driver.prepared(1);
  driver.on(ScaleOrdered{.order = 1, .request = {.pp = 3}});
  for (const auto& [rank, incarnation] : std::map(driver.workers))
    driver.on(MemberJoined{.member = {.id = rank, .incarnation = incarnation}});
  barrage();
  BOOST_TEST(refused > 50);
  driver.prepared(2);
  BOOST_TEST(driver.protocol.committed() == 2);
}

/// Configuration 1 of two stages, whose workers have the incarnations 7 and 8.
EnterConfiguration two_stages(const RunSpec& spec) {
  EnterConfiguration whole{.configuration = {.run = 1, .number = 1, .shape = first_shape(spec)}};
  for (const std::uint64_t incarnation : {7, 8})
    whole.configuration.members.push_back(
        {.id = static_cast<int>(incarnation), .incarnation = incarnation});
  return whole;
}

BOOST_AUTO_TEST_CASE(a_replica_refuses_by_name_and_goes_on) {
  ControlPlaneConfig config(2);
  caf::actor_system system{config};
  Hub hub;
  StatusBoard board;
  const LocalProcesses processes({}, [](const WorkerExited&) {});
  const RunSpec spec = small_run(2);
  const auto orders = std::make_shared<const ConfigurationOrders>(spec, two_stages(spec));
  {
    caf::scoped_actor self{system};
    const caf::actor me{self};
    const auto stage = caf::actor_cast<StageRef>(me);
    const caf::actor replica = system.spawn<ReplicaActor>(ReplicaContext{
        .replica = 0,
        .ranks = {{.actor = stage, .incarnation = 7}, {.actor = stage, .incarnation = 8}},
        .parameters = std::make_shared<const std::vector<stages::ParameterInfo>>(),
        .recovery = spec.recovery,
        .hears_host = {},
        .cpu_seconds = {},
        .director = me,
        .hub = hub,
        .board = board,
        .processes = processes});
    self->send(replica, orders);
    const ReplicaPart part{.configuration = 1,
                           .replica = 0,
                           .ranks_of_replica = 2,
                           .num_ranks = 2,
                           .num_chunks = 2,
                           .committed = 0};
    int sent = 0, refused = 0;
    const auto barrage = [&](const auto& message) {
      every_extreme(message, [&](const auto& changed) {
        if (changed.configuration == 0 || fault_in(changed, part).empty()) return;
        ++sent;
        self->send(replica, changed);
      });
    };
    barrage(Ready{.configuration = 1, .rank = 1});
    barrage(Prepared{.configuration = 1, .step = 1, .rank = 1, .sent = {{.to = 0}}});
    barrage(Copied{.configuration = 1, .step = 0, .rank = 1});
    barrage(Saved{.configuration = 1, .step = 0, .rank = 1});
    barrage(Evaluated{.configuration = 1, .step = 0, .rank = 1});
    barrage(Tapped{.configuration = 1, .step = 1, .rank = 1, .body = {.to = 0}});
    barrage(TracedActions{.configuration = 1, .step = 1, .rank = 1, .body = kTraced.body});
    barrage(ParameterHistograms{.configuration = 1, .step = 1, .rank = 1});
    for (const int rank : {0, 1}) self->send(replica, Ready{.configuration = 1, .rank = rank});
    bool ready = false;
    self->receive_while([&] { return !ready; })(
        [&](const ReportRefused& message) {
          ++refused;
          BOOST_TEST(message.sender == "rank 0 (replica 0, stage 0)");
          BOOST_TEST(message.why.find(" with ") != std::string::npos, message.why);
        },
        [&](const Event& event) { ready = std::holds_alternative<ReplicaReady>(event); },
        [](const RanksWatched&) {}, [](const Peers&) {}, [](const Moves&) {},
        [](const BeginConfiguration&) {});
    BOOST_TEST(sent > 50);
    BOOST_TEST(refused == sent);
    self->send_exit(replica, caf::exit_reason::user_shutdown);
    self->wait_for(replica);
  }
}

/// Records what a stage's order loop is asked to do.
class RecordingSink : public OrderSink {
 public:
  void push(StageOrder order) override {
    const bool last = std::holds_alternative<Finish>(order);
    orders.push_back(std::move(order));
    if (last) finished.set_value();
  }
  void interrupt(std::uint32_t, const std::string&) override {}
  void warm_up(const WarmUp& order, const std::function<void()>&) override {
    BOOST_TEST(order.rank >= 0);
    BOOST_TEST(order.rank < order.shape.num_ranks());
    ++warmed;
  }
  Heartbeat activity() const override { return {}; }

  std::vector<StageOrder> orders;
  int warmed = 0;
  std::promise<void> finished;
};

BOOST_AUTO_TEST_CASE(a_stage_carries_out_no_order_that_cannot_be) {
  ControlPlaneConfig config(2);
  caf::actor_system system{config};
  const RunSpec spec = small_run(2);
  const EnterConfiguration whole = two_stages(spec);
  int begun = 0, refused = 0;
  // Sends messages to a stage actor of its own and reads the answers that come before that actor
  // ends.
  const auto send = [&](const auto&... changed) {
    RecordingSink sink;
    caf::scoped_actor self{system};
    const caf::actor stage = system.spawn<StageActor>(
        LauncherRefs{.director = self, .door = self}, Join{.member = {.id = 7, .incarnation = 7}},
        std::ref<OrderSink>(sink), std::chrono::hours(1));
    Peers peers{.configuration = 1, .members = {}};
    for (const auto& [rank, member] : whole.configuration.members) peers.members[rank] = member;
    self->send(stage, peers);
    (self->send(stage, changed), ...);
    self->send(stage, Finish{.reason = "done"});
    sink.finished.get_future().wait();
    for (const StageOrder& order : sink.orders)
      if (const auto* begin = std::get_if<EnterConfiguration>(&order)) {
        ++begun;
        BOOST_TEST(begin->configuration.rank_of(7) == 0);
        for (const StateMove& move : begin->start.state.moves)
          BOOST_TEST((move.from | move.to) < 2);
      }
    self->send_exit(stage, caf::exit_reason::user_shutdown);
    self->wait_for(stage);
    bool more = true;
    while (more)
      self->receive([](const Join&) {}, [&](const Failed&) { ++refused; },
                    caf::after(std::chrono::seconds(0)) >> [&] { more = false; });
  };
  const BeginConfiguration begin{
      .configuration = {.run = 1, .number = 1, .shape = whole.configuration.shape},
      .start = {.state = {.step = 1, .from_memory = true}}};
  every_extreme(begin, send);
  every_extreme(Moves{.configuration = 1, .moves = {{.unit = 1, .from = 0, .to = 1}}},
                [&](const Moves& changed) { send(changed, begin); });
  every_extreme(WarmUp{.order = 1, .rank = 1, .shape = whole.configuration.shape}, send);
  every_extreme(RunStep{.configuration = 1, .step = 1, .taps = {{.from = 0, .to = 1}}}, send);
  every_extreme(Commit{.configuration = 1, .step = 1}, send);
  every_extreme(Save{.configuration = 1, .step = 1}, send);
  every_extreme(Halt{.configuration = 1, .kept = 0}, send);
  BOOST_TEST(begun > 0);
  BOOST_TEST(refused > 50);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test
