#include <boost/test/unit_test.hpp>
#include <caf/error.hpp>
#include <caf/scoped_actor.hpp>
#include <caf/sec.hpp>
#include <caf/send.hpp>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "actors/messages/control_plane.h"
#include "tests/support/null_run.h"
#include "tests/support/number_extremes.h"
#include "tests/support/run_specs.h"

// The director as an actor: every message that can reach it over a worker's connection, with every
// number in it at its extremes and every list empty or far too long, from a process that is no
// worker and from a worker. The run goes on and ends as it would have done without them.

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(director_fuzz_test)

namespace {

using namespace actors;

constexpr std::size_t kHuge = 20'000;
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr int kStages = 2;

RunSpec endless_run() {
  RunSpec spec = small_run(kStages);
  spec.max_steps = std::numeric_limits<std::int32_t>::max();
  spec.optimizer.max_steps = spec.max_steps;
  spec.checkpoint.interval = 0;
  return spec;
}

/// Sends messages to the director over the workers' connection as `sender`.
class Sender {
 public:
  Sender(const NullRun& run, const NullWorkers::Line& line, caf::actor sender)
      : run_(run), line_(line), sender_(std::move(sender)) {}

  template <typename Message>
  void send(const Message& message) {
    caf::send_as(sender_, line_.director, message);
  }
  /// Sends the message with every number at its extremes. Returns how many of them the director has
  /// refused.
  template <typename Message>
  std::uint64_t send_extremes(const Message& message) {
    const std::uint64_t before = refused();
    every_extreme(message, [this](const Message& changed) { send(changed); });
    return refused() - before;
  }
  /// The number of messages refused so far. The director answers after all earlier messages, which
  /// also shows that it lives.
  std::uint64_t refused() {
    caf::scoped_actor asks{line_.system};
    asks->request(line_.director, kRequestDeadline, Hello{.token = NullRun::kToken})
        .receive([](const Welcome&) {},
                 [&](const caf::error& e) { BOOST_FAIL(line_.system.render(e)); });
    return run_.status().refused;
  }

 private:
  const NullRun& run_;
  const NullWorkers::Line& line_;
  const caf::actor sender_;
};

TracedActions traced_of(std::uint32_t configuration, std::int64_t step) {
  return {
      .configuration = configuration,
      .step = step,
      .rank = 0,
      .body = {
          .actions = {{.name = "0F0", .from = 0, .to = 1}}, .collectives = {}, .complete = true}};
}

/// Sends everything that a worker may send to the director, except that it has failed. `mine` is
/// the incarnation in messages about one worker.
void send_everything(Sender& sender, std::uint64_t mine, std::uint32_t configuration) {
  const Join join{.token = NullRun::kToken, .member = {.id = 0, .incarnation = mine}};
  BOOST_TEST(sender.send_extremes(join) > 0u);
  sender.send_extremes(Join{.token = "", .member = join.member});
  sender.send_extremes(Join{.token = std::string(kHuge, 't'), .member = join.member});

  Heartbeat beat{.incarnation = mine, .state = "running", .links = {{.to = 1, .queued = 1}}};
  BOOST_TEST(sender.send_extremes(beat) > 0u);
  beat.links.assign(kHuge, {.to = std::numeric_limits<int>::max(), .queued = -1});
  sender.send(beat);
  beat.links.clear();
  beat.state = std::string(kHuge, 's');
  sender.send(beat);

  Halted halted{.configuration = configuration + 9,
                .incarnation = mine,
                .inventory = {.step = 1, .copies = {{.rank = 1, .step = 1}}}};
  BOOST_TEST(sender.send_extremes(halted) > 0u);
  halted.configuration = configuration;
  halted.inventory.copies.assign(kHuge, {.rank = std::numeric_limits<int>::max(), .step = 0});
  sender.send_extremes(
      Halted{.configuration = configuration, .incarnation = mine, .inventory = {.step = -1}});
  sender.send(halted);

  sender.send_extremes(Warm{.order = 1, .incarnation = mine});
}

/// Sends messages that are not for the director: answers to a replica, and orders.
void send_what_is_for_others(Sender& sender, std::uint32_t configuration, std::int64_t step) {
  sender.send_extremes(Hello{});
  sender.send_extremes(Hello{.token = NullRun::kToken});
  sender.send_extremes(Ready{.configuration = configuration, .rank = 0, .parameters = {1}});
  sender.send(
      Ready{.configuration = configuration, .parameters = std::vector<std::uint32_t>(kHuge, ~0u)});
  sender.send_extremes(
      Prepared{.configuration = configuration, .step = step + 1, .squared_norms = {1}});
  sender.send(Prepared{.configuration = configuration,
                       .step = step + 1,
                       .squared_norms = std::vector<double>(kHuge, kNaN),
                       .sent = {{.to = ~0u}},
                       .waited = {{.wait_s = kNaN}, {}}});
  sender.send_extremes(Copied{.configuration = configuration, .step = step});
  sender.send_extremes(Saved{.configuration = configuration, .step = step});
  sender.send_extremes(Evaluated{.configuration = configuration, .step = step});
  sender.send_extremes(traced_of(configuration, step));
  sender.send_extremes(traced_of(configuration + 1, step));
  sender.send_extremes(
      Tapped{.configuration = configuration, .step = step, .rank = 0, .body = {.to = 1}});
  sender.send_extremes(ParameterHistograms{
      .configuration = configuration,
      .step = step,
      .body = {
          .rows = {{.tensor = "w", .whole = 1, .part = {.elements = 1, .counts = {{1, 1}}}}}}});
  sender.send_extremes(Commit{.configuration = configuration, .step = step});
  sender.send(Finish{.reason = "nothing"});
  sender.refused();
}

/// Checks that steps are committed and that the run ends after one when it is asked to.
void goes_on_and_ends(NullRun& run) {
  run.wait_for(1);
  const std::int64_t step = run.newest() + 3;
  run.wait_for(step);
  const Outcome outcome = run.stop("the test is over");
  BOOST_TEST(outcome.step >= step);
  BOOST_TEST(outcome.reason == "the test is over");
}

}  // namespace

BOOST_AUTO_TEST_CASE(no_message_ends_a_run_that_waits_for_its_workers) {
  NullRun run(endless_run());
  run.workers().before_first_join([&](const NullWorkers::Line& line) {
    caf::scoped_actor nobody{line.system};
    Sender outsider(run, line, caf::actor_cast<caf::actor>(nobody));
    send_everything(outsider, 0, 0);
    send_what_is_for_others(outsider, 0, 0);
    BOOST_TEST(outsider.send_extremes(Failed{.configuration = 9}) > 0u);
    outsider.send(caf::error(caf::sec::runtime_error));
  });
  run.start();
  goes_on_and_ends(run);
}

BOOST_AUTO_TEST_CASE(no_message_of_an_outsider_ends_a_run_that_trains) {
  NullRun run(endless_run());
  run.start();
  run.wait_for(1);
  run.workers().talk([&](const NullWorkers::Line& line) {
    caf::scoped_actor nobody{line.system};
    Sender outsider(run, line, caf::actor_cast<caf::actor>(nobody));
    const RunStatus now = run.status();
    send_everything(outsider, 0, now.configuration);
    send_what_is_for_others(outsider, now.configuration, now.step);
    BOOST_TEST(outsider.send_extremes(Failed{.configuration = now.configuration + 9}) > 0u);
    const std::uint64_t before = outsider.refused();
    outsider.send(caf::error(caf::sec::runtime_error));
    BOOST_TEST(outsider.refused() == before + 1);
    outsider.send(caf::exit_msg{nobody->address(), caf::exit_reason::user_shutdown});
    outsider.refused();
  });
  goes_on_and_ends(run);
}

BOOST_AUTO_TEST_CASE(no_message_of_a_worker_ends_a_run_that_trains) {
  NullRun run(endless_run());
  const auto told = run.hub().subscribe(
      {.kinds = mask_of<RankActivity, ActionsTraced, TensorTapped>(), .capacity = 100'000});
  run.start();
  run.wait_for(1);
  run.workers().talk([&](const NullWorkers::Line& line) {
    const auto& [incarnation, worker] = *line.workers.begin();
    Sender member(run, line, worker);
    const RunStatus now = run.status();
    send_everything(member, incarnation, now.configuration);
  });
  goes_on_and_ends(run);
  BOOST_TEST(run.status().configuration == 1u);  // no worker was lost
  for (const auto& event : told->take(100'000).events) {
    BOOST_TEST(event->rank >= 0);
    BOOST_TEST(event->rank < kStages);
    BOOST_TEST(event->configuration == 1u);
    if (const auto* tapped = std::get_if<TensorTapped>(&event->body))
      BOOST_TEST((tapped->to >= 0 && tapped->to < kStages));
  }
}

/// CAF returns messages that an actor does not know. So a worker may be lost by that, but never the
/// run.
BOOST_AUTO_TEST_CASE(what_a_worker_says_to_the_wrong_actor_ends_no_run) {
  NullRun run(endless_run());
  run.start();
  run.wait_for(1);
  run.workers().talk([&](const NullWorkers::Line& line) {
    Sender member(run, line, line.workers.begin()->second);
    send_what_is_for_others(member, run.status().configuration, run.status().step);
  });
  goes_on_and_ends(run);
}

/// A failure of an unknown kind counts as the worst kind. An error that CAF carries is a failure,
/// too: the worker has not read its order.
BOOST_AUTO_TEST_CASE(what_a_worker_says_of_its_failure_costs_a_recovery) {
  NullRun run(endless_run());
  run.start();
  run.wait_for(1);
  const auto send = [&](auto&& make) {
    run.workers().talk([&](const NullWorkers::Line& line) {
      const auto& [incarnation, worker] = *line.workers.begin();
      Sender member(run, line, worker);
      member.send(make(incarnation));
      member.refused();
    });
    run.wait_for(run.newest() + 1);  // this follows only after the director has replaced the worker
  };
  for (const int kind : {std::numeric_limits<int>::min(), -1, std::numeric_limits<int>::max()})
    send([&](std::uint64_t mine) { return Failed{.incarnation = mine, .kind = kind}; });
  send([](std::uint64_t) { return caf::error(caf::sec::runtime_error); });
  goes_on_and_ends(run);
  BOOST_TEST(run.status().configuration == 5u);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test
