#include "launch/web/order_desk.h"

#include <boost/test/unit_test.hpp>

#include "launch/web/order_preview.h"
#include "tests/launch/manifest_text.h"
#include "tests/support/expect_error.h"

namespace troupe::test {
namespace {

using launch::OrderDesk;
using nlohmann::json;

constexpr const char* kToken = "secret";

/// A run that notes what it is ordered.
struct FakeRun {
  int stops = 0;
  std::vector<std::string> changes;
  std::function<void(const actors::ScaleAnswer&)> answer;
  OrderDesk desk{{.token = kToken,
                  .stop = [this] { ++stops; },
                  .scale =
                      [this](const actors::ScaleRequest& request, auto told) {
                        changes.push_back(to_string(request));
                        answer = std::move(told);
                      },
                  .manifest = [] { return checked(kSmallManifest); }}};

  OrderDesk::Answer ask(json request, const std::string& token = kToken) {
    request["token"] = token;
    return desk.answer(request.dump(), 0.5);
  }
};

bool has(const json& body, const char* field, const std::string& text) {
  return body.value(field, "").find(text) != std::string::npos;
}

}  // namespace

BOOST_AUTO_TEST_CASE(nothing_is_done_without_the_token) {
  FakeRun run;
  for (const char* token : {"", "secre", "secret2", "Secret"})
    BOOST_TEST(run.ask({{"request", "stop"}}, token).status == 403, token);
  for (const char* body : {"", "{}", "[]", "stop", R"({"token":"secret"})",
                           R"({"token":"secret","request":7})", R"({"token":["secret"]})"})
    BOOST_TEST(run.desk.answer(body, 0).status == 403, body);
  OrderDesk closed({.token = "", .stop = [&] { ++run.stops; }});
  BOOST_TEST(closed.answer(R"({"token":"","request":"stop"})", 0).status == 403);
  BOOST_TEST(run.stops == 0);
  BOOST_TEST(run.ask({{"request", "greet"}}).status == 200);
  BOOST_TEST(run.ask({{"request", "stop"}}).status == 200);
  BOOST_TEST(run.stops == 1);
}

BOOST_AUTO_TEST_CASE(a_preview_shows_the_numbers_of_a_plan_and_changes_nothing) {
  FakeRun run;
  const auto answer = run.ask({{"request", "preview"}, {"pp", 2}, {"schedule", "gpipe"}});
  BOOST_TEST(answer.status == 200);
  for (const char* text : {"now: pp 1 x dp 1", "then: pp 2 x dp 1, gpipe", "fullest rank", "MiB",
                           "bubble: 0.0 %, then ", "step: 500 ms, then about "})
    BOOST_TEST(has(answer.body, "text", text), text << " is not in " << answer.body.dump());
  BOOST_TEST(run.changes.empty());
}

BOOST_AUTO_TEST_CASE(what_would_be_refused_is_refused_in_the_preview) {
  FakeRun run;
  const auto refused = [&](json request, const std::string& why) {
    const auto answer = run.ask(std::move(request));
    BOOST_TEST(answer.status == 400);
    BOOST_TEST(has(answer.body, "error", why), answer.body.dump());
  };
  refused({{"request", "preview"}, {"pp", 1000}}, "1000");
  refused({{"request", "preview"}, {"schedule", "gpip"}}, "gpipe");
  refused({{"request", "preview"}, {"pp", "two"}}, "whole number");
  refused({{"request", "scale"}}, "nothing to change");
  refused({{"request", "explode"}}, "explode");
}

BOOST_AUTO_TEST_CASE(a_change_is_ordered_and_its_end_is_told) {
  FakeRun run;
  BOOST_TEST(run.desk.newest() == "");
  BOOST_TEST(run.ask({{"request", "scale"}, {"pp", 3}, {"schedule", "gpipe"}}).status == 200);
  BOOST_TEST((run.changes == std::vector<std::string>{"--pp 3 --schedule gpipe"}));
  BOOST_TEST(run.desk.newest() == "--pp 3 --schedule gpipe: under way");
  run.answer({.code = 0, .text = "done in 2 s"});
  BOOST_TEST(run.desk.newest() == "--pp 3 --schedule gpipe: done in 2 s");
  run.ask({{"request", "scale"}, {"pp", 9}});
  run.answer({.code = 64, .text = "no"});
  BOOST_TEST(run.desk.newest() == "--pp 9: refused: no");
}

}  // namespace troupe::test
