#include "actors/protocol.h"

#include <boost/test/unit_test.hpp>
#include <cmath>
#include <limits>
#include <random>

#include "tests/support/run_specs.h"

namespace troupe::actors {
namespace {

using Phase = DirectorProtocol::Phase;

/// Drives a DirectorProtocol as the actors would, one event at a time.
struct Driver {
  explicit Driver(RunSpec run, std::int64_t first = 0, std::int64_t saved = -1)
      : spec(std::move(run)), protocol(spec, first, saved, ids()) {}

  std::vector<std::uint64_t> ids() const {
    std::vector<std::uint64_t> values;
    for (int rank = 0; rank < spec.num_ranks(); ++rank)
      values.push_back(100 + static_cast<std::uint64_t>(rank));
    return values;
  }
  std::vector<Effect> on(const Event& event) { return protocol.on(event); }
  /// Everybody joins and is ready; the effects of the last answer.
  std::vector<Effect> start() {
    on(Started{});
    for (int rank = 0; rank < spec.num_ranks(); ++rank) on(joined(rank));
    return by_replicas(
        [](int replica) { return Event{ReplicaReady{.epoch = 1, .replica = replica}}; });
  }
  MemberJoined joined(int rank) const {
    return {.member = {.rank = rank,
                       .incarnation = 100 + static_cast<std::uint64_t>(rank),
                       .pid = 1000 + rank}};
  }
  template <typename Make>
  std::vector<Effect> by_replicas(Make&& make) {
    std::vector<Effect> last;
    for (int replica = 0; replica < spec.mesh.dp; ++replica) last = on(make(replica));
    return last;
  }
  std::vector<Effect> prepared(std::int64_t step, double loss_sum = 128, double squares = 4) {
    return by_replicas([&](int replica) {
      return Event{ReplicaPrepared{.epoch = 1,
                                   .step = step,
                                   .replica = replica,
                                   .loss_sum = loss_sum,
                                   .squared_norm = squares}};
    });
  }
  std::vector<Effect> saved(std::int64_t step) {
    return by_replicas(
        [&](int r) { return Event{ReplicaSaved{.epoch = 1, .step = step, .replica = r}}; });
  }
  WorkerExited exited(int rank, bool clean = true) const {
    return {.rank = rank,
            .incarnation = 100 + static_cast<std::uint64_t>(rank),
            .clean = clean,
            .cause = clean ? "exit code 0" : "signal 9 (SIGKILL)"};
  }

  RunSpec spec;
  DirectorProtocol protocol;
};

template <typename T>
const T* find(const std::vector<Effect>& effects) {
  for (const Effect& effect : effects)
    if (const T* found = std::get_if<T>(&effect)) return found;
  return nullptr;
}

/// Ends every worker; the outcome.
Outcome end_of(Driver& driver) {
  for (int rank = 0; rank < driver.spec.num_ranks(); ++rank)
    if (const auto effects = driver.on(driver.exited(rank)); const End* end = find<End>(effects))
      return end->outcome;
  return {.exit_code = -1, .reason = "the protocol did not end"};
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_run_spawns_joins_prepares_and_steps) {
  Driver driver(test::small_run(2, 2));
  const auto begin = driver.on(Started{});
  BOOST_TEST(std::count_if(begin.begin(), begin.end(), [](const Effect& e) {
               return std::holds_alternative<SpawnWorker>(e);
             }) == 4);
  for (int rank = 0; rank < 3; ++rank) BOOST_TEST(driver.on(driver.joined(rank)).empty());
  const auto all = driver.on(driver.joined(3));
  BOOST_REQUIRE(find<StartEpoch>(all));
  BOOST_TEST(find<StartEpoch>(all)->epoch.members[3].pid == 1003);
  BOOST_TEST(driver.on(ReplicaReady{.epoch = 1, .replica = 0}).empty());
  const auto ready = driver.on(ReplicaReady{.epoch = 1, .replica = 1});
  BOOST_REQUIRE(find<OrderStep>(ready));
  BOOST_TEST(find<OrderStep>(ready)->step == 1);
}

BOOST_AUTO_TEST_CASE(a_step_commits_when_the_last_replica_has_voted) {
  Driver driver(test::small_run(2, 2));
  driver.start();
  BOOST_TEST(
      driver.on(ReplicaPrepared{.epoch = 1, .step = 1, .replica = 1, .loss_sum = 2}).empty());
  const auto effects = driver.on(
      ReplicaPrepared{.epoch = 1, .step = 1, .replica = 0, .loss_sum = 1, .squared_norm = 9});
  const auto* commit = find<OrderCommit>(effects);
  BOOST_REQUIRE(commit);
  BOOST_TEST(commit->loss == (1.0 + 2.0) / 128);
  BOOST_TEST(commit->grad_norm == 3.0);
  BOOST_TEST(commit->clip_factor == 1.0 / (3.0 + 1e-6));
  BOOST_REQUIRE(find<OrderStep>(effects));
  BOOST_TEST(find<OrderStep>(effects)->step == 2);
  BOOST_TEST(driver.protocol.committed() == 1);
}

BOOST_AUTO_TEST_CASE(votes_of_another_epoch_or_step_count_for_nothing) {
  Driver driver(test::small_run());
  driver.start();
  BOOST_TEST(driver.on(ReplicaPrepared{.epoch = 2, .step = 1}).empty());
  BOOST_TEST(driver.on(ReplicaPrepared{.epoch = 1, .step = 2}).empty());
  BOOST_TEST(driver.protocol.committed() == 0);
}

BOOST_AUTO_TEST_CASE(a_loss_or_norm_that_is_not_finite_is_never_committed) {
  const double nan = std::numeric_limits<double>::quiet_NaN(),
               inf = std::numeric_limits<double>::infinity();
  for (const auto& [loss, squares] : {std::pair{nan, 1.0}, {inf, 1.0}, {1.0, nan}, {1.0, inf}}) {
    Driver driver(test::small_run());
    driver.start();
    const auto effects = driver.prepared(1, loss, squares);
    BOOST_TEST(!find<OrderCommit>(effects));
    BOOST_TEST(driver.protocol.committed() == 0);
    const Outcome outcome = end_of(driver);
    BOOST_TEST(outcome.exit_code == 70);
    BOOST_TEST(outcome.reason.find("step 1") != std::string::npos);
  }
}

BOOST_AUTO_TEST_CASE(the_last_step_is_saved_then_the_run_ends_with_0) {
  Driver driver(test::small_run());
  driver.start();
  for (std::int64_t step = 1; step < 4; ++step) driver.prepared(step);
  const auto last = driver.prepared(4);
  BOOST_REQUIRE(find<OrderSave>(last));
  BOOST_TEST(find<OrderSave>(last)->step == 4);
  BOOST_TEST(find<PublishCheckpoint>(driver.saved(4)));
  BOOST_TEST(find<OrderFinish>(driver.on(Published{.step = 4})));
  const Outcome outcome = end_of(driver);
  BOOST_TEST(outcome.exit_code == 0);
  BOOST_TEST(outcome.step == 4);
}

BOOST_AUTO_TEST_CASE(checkpoints_come_at_the_interval_and_initially) {
  RunSpec spec = test::small_run();
  spec.checkpoint = {.interval = 2, .initial = true};
  Driver driver(spec);
  BOOST_TEST(find<OrderSave>(driver.start())->step == 0);
  driver.saved(0);
  BOOST_TEST(find<OrderStep>(driver.on(Published{.step = 0})));
  BOOST_TEST(!find<OrderSave>(driver.prepared(1)));
  BOOST_TEST(find<OrderSave>(driver.prepared(2))->step == 2);
  BOOST_TEST(driver.prepared(3).empty());  // nothing runs while a checkpoint is written
}

BOOST_AUTO_TEST_CASE(evaluation_follows_the_step_and_reports_the_mean) {
  RunSpec spec = test::small_run();
  spec.eval = {.interval = 1, .steps = 2};
  Driver driver(spec);
  driver.start();
  BOOST_TEST(find<OrderEvaluate>(driver.prepared(1)));
  const auto effects = driver.on(ReplicaEvaluated{.epoch = 1, .step = 1, .loss_sum = 512});
  BOOST_REQUIRE(find<ReportEvaluation>(effects));
  BOOST_TEST(find<ReportEvaluation>(effects)->loss == 512.0 / (2 * 128));
  BOOST_TEST(find<OrderStep>(effects)->step == 2);
}

BOOST_AUTO_TEST_CASE(stop_finishes_the_step_saves_and_ends_with_0) {
  Driver driver(test::small_run());
  driver.start();
  driver.prepared(1);
  BOOST_TEST(driver.on(StopOrdered{.reason = "SIGTERM"}).empty());
  BOOST_TEST(find<OrderSave>(driver.prepared(2))->step == 2);
  driver.saved(2);
  BOOST_TEST(find<OrderFinish>(driver.on(Published{.step = 2})));
  const Outcome outcome = end_of(driver);
  BOOST_TEST(outcome.exit_code == 0);
  BOOST_TEST(outcome.reason == "SIGTERM");
}

BOOST_AUTO_TEST_CASE(stop_now_kills_and_ends_with_75) {
  Driver driver(test::small_run(2));
  driver.start();
  BOOST_TEST(find<KillWorkers>(driver.on(StopNowOrdered{.reason = "a second SIGTERM"})));
  BOOST_TEST(end_of(driver).exit_code == 75);
}

BOOST_AUTO_TEST_CASE(a_death_is_the_cause_even_if_its_symptom_comes_first) {
  Driver driver(test::small_run(2));
  driver.start();
  const auto symptom = driver.on(RankFailed{.rank = 0,
                                            .kind = ErrorKind::unavailable,
                                            .message = "no answer from rank 1",
                                            .symptom = true});
  BOOST_TEST(find<StartTimer>(symptom));
  BOOST_TEST(!find<OrderFinish>(symptom));
  BOOST_TEST(find<OrderFinish>(driver.on(driver.exited(1, false))));
  driver.on(driver.exited(0));
  BOOST_TEST((driver.protocol.phase() == Phase::ended));
}

BOOST_AUTO_TEST_CASE(the_outcome_names_the_first_cause_once) {
  Driver driver(test::small_run(2));
  driver.start();
  driver.on(driver.exited(1, false));
  const auto effects = driver.on(driver.exited(0, false));
  const End* end = find<End>(effects);
  BOOST_REQUIRE(end);
  BOOST_TEST(end->outcome.exit_code == 70);
  BOOST_TEST(end->outcome.reason == "rank 1 (replica 0, stage 1) ended by signal 9 (SIGKILL)");
}

BOOST_AUTO_TEST_CASE(a_symptom_without_a_cause_is_the_cause) {
  Driver driver(test::small_run(2));
  driver.start();
  const auto effects = driver.on(RankFailed{.rank = 0,
                                            .kind = ErrorKind::unavailable,
                                            .message = "waited 600 s for rank 1",
                                            .symptom = true});
  driver.on(TimerRang{.timer = find<StartTimer>(effects)->timer});
  const Outcome outcome = end_of(driver);
  BOOST_TEST(outcome.exit_code == 70);
  BOOST_TEST(outcome.reason.find("waited 600 s for rank 1") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(workers_that_do_not_join_or_end_are_not_waited_for_for_ever) {
  Driver driver(test::small_run(2));
  const auto effects = driver.on(Started{});
  driver.on(driver.joined(0));
  const auto late = driver.on(TimerRang{.timer = find<StartTimer>(effects)->timer});
  BOOST_REQUIRE(find<OrderFinish>(late));
  const auto killed = driver.on(TimerRang{.timer = find<StartTimer>(late)->timer});
  BOOST_TEST(find<KillWorkers>(killed));
  const Outcome outcome = end_of(driver);
  BOOST_TEST(outcome.exit_code == 70);
  BOOST_TEST(outcome.reason.find("rank 1") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(a_worker_that_refuses_the_users_data_keeps_its_exit_code) {
  Driver driver(test::small_run());
  driver.on(Started{});
  driver.on(driver.joined(0));
  driver.on(RankFailed{.rank = 0, .kind = ErrorKind::data, .message = "the checkpoint is torn"});
  BOOST_TEST(end_of(driver).exit_code == 65);
}

BOOST_AUTO_TEST_CASE(a_stale_incarnation_neither_joins_nor_dies) {
  Driver driver(test::small_run());
  driver.on(Started{});
  BOOST_TEST(driver.on(MemberJoined{.member = {.rank = 0, .incarnation = 5}}).empty());
  BOOST_TEST(driver.on(WorkerExited{.rank = 0, .incarnation = 5}).empty());
  BOOST_TEST(driver.on(MemberJoined{.member = {.rank = 9, .incarnation = 5}}).empty());
}

BOOST_AUTO_TEST_CASE(a_finished_checkpoint_is_not_saved_again) {
  Driver driver(test::small_run(), 4, 4);
  BOOST_TEST(find<OrderFinish>(driver.start()));
  BOOST_TEST(end_of(driver).step == 4);
}

/// Any order of events: no step is committed twice or skipped, nothing happens after the end, and a
/// run whose workers have all ended has ended.
BOOST_AUTO_TEST_CASE(random_event_orders_keep_the_invariants) {
  const auto seed = std::random_device{}();
  BOOST_TEST_MESSAGE("seed " << seed);
  std::mt19937 rng(seed);
  const auto pick = [&](int n) { return static_cast<int>(rng() % static_cast<unsigned>(n)); };
  for (int round = 0; round < 2000; ++round) {
    RunSpec spec = test::small_run(1 + pick(3), 1 + pick(2));
    spec.checkpoint = {.interval = pick(3), .initial = pick(2) == 1};
    spec.eval = {.interval = pick(3), .steps = 1};
    Driver driver(spec);
    std::int64_t committed = 0;
    std::set<int> gone;
    int ends = 0;
    std::uint64_t timer = 0;
    const auto check = [&](const std::vector<Effect>& effects) {
      for (const Effect& effect : effects) {
        if (const auto* c = std::get_if<OrderCommit>(&effect))
          BOOST_REQUIRE(c->step == ++committed);
        if (const auto* s = std::get_if<OrderStep>(&effect))
          BOOST_REQUIRE(s->step == committed + 1);
        if (const auto* t = std::get_if<StartTimer>(&effect)) timer = t->timer;
        if (std::holds_alternative<End>(effect)) ++ends;
      }
    };
    check(driver.on(Started{}));
    for (int i = 0; i < 120; ++i) {
      const int rank = pick(spec.num_ranks()), replica = pick(spec.mesh.dp);
      const auto step = driver.protocol.committed() + pick(3) - 1;
      switch (pick(i < 60 ? 7 : 12)) {
        case 0:
          check(driver.on(driver.joined(rank)));
          break;
        case 1:
          check(driver.on(ReplicaReady{.epoch = 1, .replica = replica}));
          break;
        case 2:
        case 3:
          check(driver.on(ReplicaPrepared{.epoch = 1, .step = step + 1, .replica = replica}));
          break;
        case 4:
          check(driver.on(ReplicaSaved{.epoch = 1, .step = step, .replica = replica}));
          break;
        case 5:
          check(driver.on(Published{.step = step}));
          break;
        case 6:
          check(driver.on(ReplicaEvaluated{.epoch = 1, .step = step, .replica = replica}));
          break;
        case 7:
          check(driver.on(TimerRang{.timer = timer - static_cast<std::uint64_t>(pick(2))}));
          break;
        case 8:
          check(driver.on(RankFailed{.rank = rank, .message = "x", .symptom = pick(2) == 1}));
          break;
        case 9:
          check(driver.on(StopOrdered{.reason = "stop"}));
          break;
        case 10:
          check(driver.on(StopNowOrdered{.reason = "now"}));
          break;
        case 11:
          if (gone.insert(rank).second) check(driver.on(driver.exited(rank, pick(2) == 1)));
          break;
      }
      BOOST_REQUIRE(ends == (driver.protocol.phase() == Phase::ended ? 1 : 0));
    }
    for (int rank = 0; rank < spec.num_ranks(); ++rank)
      if (gone.insert(rank).second) check(driver.on(driver.exited(rank)));
    BOOST_REQUIRE(ends == 1);
    BOOST_REQUIRE(committed == driver.protocol.committed());
  }
}

}  // namespace troupe::actors
