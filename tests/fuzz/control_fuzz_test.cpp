#include <boost/test/unit_test.hpp>
#include <string>

#include "launch/control/control_protocol.h"
#include "launch/control/event_json.h"
#include "launch/monitors/trace_collector.h"
#include "launch/screen/picture.h"
#include "launch/watch/run_watch.h"
#include "tests/support/mutate.h"
#include "tests/support/seed.h"

// Messages over the control socket, changed at random, at both of its ends.

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(control_fuzz_test)

namespace {

using namespace launch;
using nlohmann::json;

constexpr int kRounds = 20'000;
constexpr std::size_t kMaxFrame = 300;

/// Returns every frame that a reader finds in the bytes, which it gets in pieces of random length.
std::vector<std::string> frames_in(const std::string& bytes, std::mt19937_64& random,
                                   bool& broken) {
  FrameReader reader(kMaxFrame);
  std::vector<std::string> frames;
  for (std::size_t at = 0; at < bytes.size();) {
    const std::size_t length = std::min<std::size_t>(1 + random() % 40, bytes.size() - at);
    reader.add(std::string_view(bytes).substr(at, length));
    at += length;
    while (auto frame = reader.next()) frames.push_back(std::move(*frame));
  }
  broken = reader.broken();
  return frames;
}

}  // namespace

BOOST_AUTO_TEST_CASE(frames_arrive_whole_or_not_at_all) {
  std::mt19937_64 random(fresh_seed());
  for (int round = 0; round < kRounds; ++round) {
    std::string stream;
    std::vector<std::string> sent;
    for (std::size_t i = random() % 5; i > 0; --i) {
      sent.push_back(std::string(1 + random() % kMaxFrame, 'x'));
      stream += to_frame(std::string_view(sent.back()));
    }
    bool broken = false;
    BOOST_TEST((frames_in(stream, random, broken) == sent));
    BOOST_TEST(!broken);
    for (const std::string& frame : frames_in(mutated(stream, random), random, broken))
      BOOST_TEST((!frame.empty() && frame.size() <= kMaxFrame));
  }
}

BOOST_AUTO_TEST_CASE(only_the_whole_token_opens) {
  std::mt19937_64 random(fresh_seed());
  const std::string token(32, 'a');
  const std::string request = to_text({{"token", token}, {"request", "attach"}, {"credit", 5}});
  BOOST_TEST(authenticated_request(request, token).has_value());
  for (int round = 0; round < kRounds; ++round) {
    const std::string changed = mutated(request, random);
    const auto accepted = authenticated_request(changed, token);
    if (!accepted) continue;
    BOOST_TEST(changed.find(token) != std::string::npos, changed);
    BOOST_TEST(accepted->at("request").is_string());
  }
}

BOOST_AUTO_TEST_CASE(readers_of_events_stay_whole) {
  std::mt19937_64 random(fresh_seed());
  const json status = {{"run", "r"}, {"ranks", {{{"rank", 0}}, {{"rank", 1}, {"stage", 1}}}}};
  const auto measured = std::make_shared<actors::StepReport::Measured>(
      actors::StepReport::Measured{.stages = {{}}, .edges = {{}}});
  const std::string events[] = {
      to_text(to_json(actors::RunEvent{
          .body = actors::StepCommitted{.report = {.loss = 1, .replicas = {measured}}}})),
      to_text(to_json(actors::RunEvent{
          .rank = 1, .body = actors::ActionsTraced{.actions = {{.name = "0F0"}}}})),
      to_text(to_json(actors::RunEvent{.body = actors::MembershipChanged{.ranks = {{}}}})),
      to_text(to_json(actors::RunEvent{.body = actors::Recovered{.cause = "c"}}))};
  RunWatch watch({.name = "r", .max_steps = 10});
  watch.begin(received_status(status), 0);
  TraceCollector trace(status, 1);
  for (int round = 0; round < kRounds; ++round) {
    const json event =
        json::parse(mutated(events[random() % std::size(events)], random), nullptr, false);
    if (!event.is_object()) continue;
    if (const auto received = received_event(event)) watch.apply(*received);
    if (round % 100 == 0) draw_screen(watch.now(1), {}, 80, 24, 0);
    trace.add(event);
  }
  BOOST_TEST(watch.now(1).loss.curve().smooth.size() <= LongCurve::kMostColumns);
  BOOST_TEST(trace.chrome_trace().contains("traceEvents"));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test
