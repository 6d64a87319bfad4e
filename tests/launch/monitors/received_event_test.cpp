#include <boost/test/unit_test.hpp>
#include <random>
#include <set>

#include "launch/control/event_json.h"
#include "tests/launch/step_event.h"
#include "tests/support/seed.h"

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(received_event_test)

namespace {

using namespace actors;
using launch::received_event;
using nlohmann::json;

constexpr RecoveryPhases kPhases{.detect_s = 1,
                                 .decide_s = 2,
                                 .spawn_s = 3,
                                 .move_s = 4,
                                 .rebuild_s = 5,
                                 .catch_up_s = 7,
                                 .first_step_s = 6};

/// An event of every kind, with fields that are not their defaults.
std::vector<EventBody> all_bodies() {
  StepReport report = std::get<StepCommitted>(step_event(9, 2.5).body).report;
  report.replicas = {std::make_shared<StepReport::Measured>(
      StepReport::Measured{.stages = {{.replica = 1,
                                       .stage = 2,
                                       .shard = 3,
                                       .busy_s = 4,
                                       .idle_s = 5,
                                       .collective_s = 6,
                                       .device_used_bytes = 7,
                                       .device_total_bytes = 8,
                                       .host_bytes = 9,
                                       .network_bytes = 10}},
                           .edges = {{.from = 1, .to = 2, .bytes = 3, .wait_s = 4}},
                           .collectives = {{.group = "g",
                                            .operation = "all-reduce",
                                            .count = 2,
                                            .bytes = 3,
                                            .time_s = 4,
                                            .exposed_s = 5}}})};
  StepReport routed = report;
  routed.aux_loss = 0.5;
  routed.routers = {{.layer = 1, .load = {0.5, 1.5}, .entropy = 0.25, .balance = 2, .z = 3}};
  const RankStatus rank{.rank = 1,
                        .replica = 2,
                        .stage = 3,
                        .shard = 4,
                        .pid = 5,
                        .host = "h",
                        .gpu = WorkerGpu{.index = 1, .name = "G", .uuid = "u"}};
  return {
      StepCommitted{report},
      StepCommitted{routed},
      StepAgain{.report = report, .way = {.back_to = 4, .reached = 12}},
      EvaluationDone{.loss = 2},
      EvaluationDone{.loss = 2, .sets = {{"a", 2}, {"b", 3}}},
      CheckpointSaved{.path = "p", .duration_s = 1},
      NotFinite{.where = "here"},
      MembershipChanged{.pipeline = {.pp = 2,
                                     .dp = 3,
                                     .tp = 4,
                                     .stage_of_chunk = {0, 1, 1},
                                     .copies = 2,
                                     .microbatches = 8},
                        .schedule = "1f1b",
                        .ranks = {rank}},
      RankActivity{.state = "waiting",
                   .waiting_for = "x",
                   .resident_bytes = 1,
                   .mailbox_depth = 2,
                   .links = {{.to = 3, .queued = 4}}},
      DirectorActivity{.mailbox_depth = 1, .handler_s = {0.5, 0.25}},
      ActionsTraced{
          .actions = {{.name = "0F1",
                       .begin_s = 1,
                       .end_s = 2,
                       .from = 3,
                       .to = 4,
                       .waited_s = 5,
                       .collective_s = 6,
                       .sent_s = 7}},
          .collectives = {{.group = "g", .operation = "o", .bucket = 1, .begin_s = 2, .end_s = 3}},
          .complete = true,
          .clock = ClockAhead{.seconds = -3, .error_s = 0.5}},
      StragglerFound{
          .replica = 1, .stage = 2, .shard = 3, .score = 4, .busy_s = 5, .usual_busy_s = 6},
      LargeGradient{.bucket = 1, .norm = 2},
      FailureDetected{.cause = "c", .detect_s = 1},
      PhaseBegun{.phase = "move"},
      WentBack{.way = {.back_to = 4, .reached = 12}, .from = "checkpoint"},
      Recovered{.cause = "c", .from = "memory", .phases = kPhases, .stall_s = 21},
      Rescaled{.cause = "c", .phases = kPhases, .stall_s = 21},
      HostChanged{.host = "h1", .state = "lost", .cause = "c"},
      GroupsChanged{.collectives = "nccl"},
      MonitorAttached{.who = "w"},
      MonitorDetached{.who = "w", .dropped = 3},
      Note{.text = "n"},
      RunEnded{.outcome = {.exit_code = 70, .step = 5, .reason = "r"}}};
}

}  // namespace

BOOST_AUTO_TEST_CASE(what_is_received_is_what_was_sent) {
  std::set<std::string> kinds;
  for (const EventBody& body : all_bodies()) {
    const json sent = launch::to_json(RunEvent{
        .configuration = 3, .step = 5, .rank = 2, .body = body, .time = 1700000000.123456});
    kinds.insert(sent.at("kind").get<std::string>());
    const auto received = received_event(sent);
    BOOST_REQUIRE_MESSAGE(received, sent.dump());
    BOOST_TEST(launch::to_json(*received) == sent);
  }
  BOOST_TEST(kinds.size() == kNumEventKinds - 2);  // all but tensor and histograms
}

BOOST_AUTO_TEST_CASE(a_status_is_received_with_its_ranks) {
  const RunStatus sent{.state = "running",
                       .step = 4,
                       .max_steps = 9,
                       .configuration = 2,
                       .refused = 1,
                       .pipeline = {.pp = 2, .stage_of_chunk = {0, 1}, .microbatches = 4},
                       .ranks = {{.rank = 1,
                                  .stage = 1,
                                  .pid = 7,
                                  .host = "h",
                                  .state = "waiting",
                                  .waiting_for = "x",
                                  .edges = {{"0", "peer"}, {"1", "local"}},
                                  .resident_bytes = 5}}};
  const json text = launch::to_json(sent, "run");
  BOOST_TEST(launch::to_json(launch::received_status(text), "run") == text);
  BOOST_TEST(text.at("ranks").at(0).at("edges").dump() == R"({"0":"peer","1":"local"})");
  RunStatus catching_up = sent;
  catching_up.catch_up = {.back_to = 3, .reached = 9};
  const json progress = launch::to_json(catching_up, "run");
  BOOST_TEST((progress.at("progress").at(0) ==
              json{{"what", "catching up"}, {"done", 1}, {"of", 6}, {"unit", "steps"}}));
  BOOST_TEST(launch::to_json(launch::received_status(progress), "run") == progress);
}

BOOST_AUTO_TEST_CASE(a_host_is_received_with_every_bit_of_its_incarnation) {
  for (const std::uint64_t incarnation :
       {std::uint64_t{1}, std::uint64_t{1} << 63, ~std::uint64_t{0}}) {
    const RunStatus sent{.hosts = {{.host = "h1",
                                    .state = "joined",
                                    .address = "10.0.0.1",
                                    .incarnation = incarnation,
                                    .slots = 2,
                                    .clock = ClockAhead{.seconds = 7, .error_s = 0.5},
                                    .ranks = {1, 3}}},
                         .failure = "rank 1 is lost"};
    const auto received = launch::received_status(launch::to_json(sent, "run"));
    BOOST_TEST((received.hosts == sent.hosts), incarnation);
  }
  const auto number = [](const json& value) {
    return launch::field_of<std::uint32_t>({{"n", value}}, "n", 7);
  };
  BOOST_TEST(number(1u << 31) == 1u << 31);
  for (const json& strange : {json(-1), json(~0ull), json(1.5), json("1"), json(nullptr)})
    BOOST_TEST(number(strange) == 7u);
}

BOOST_AUTO_TEST_CASE(fields_of_any_type_do_no_harm) {
  std::mt19937_64 random(fresh_seed());
  const json values[] = {nullptr, -1, 1e300, "text", json::array({1, "x"}), json::object(), true};
  for (int round = 0; round < 300; ++round)
    for (const EventBody& body : all_bodies()) {
      json sent = launch::to_json(RunEvent{.configuration = 3, .step = 5, .body = body});
      for (auto& [name, value] : sent.items())
        if (name != "kind" && random() % 2 == 0) value = values[random() % std::size(values)];
      BOOST_TEST(received_event(sent).has_value());
    }
  for (const json& strange : {json(nullptr), json(7), json::array(), json{{"kind", 7}}})
    BOOST_TEST(!received_event(strange));
  BOOST_TEST(launch::received_status(json(nullptr)).ranks.empty());
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test
