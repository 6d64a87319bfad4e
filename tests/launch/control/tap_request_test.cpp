#include "launch/control/tap_request.h"

#include <boost/test/unit_test.hpp>

#include "launch/control/event_json.h"
#include "tests/support/expect_error.h"

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(tap_request_test)

namespace {

using actors::TapRequest;

nlohmann::json status_of(const actors::Pipeline& pipeline, std::int64_t step = 3,
                         std::int64_t max_steps = 50) {
  return launch::to_json(
      actors::RunStatus{
          .state = "running", .step = step, .max_steps = max_steps, .pipeline = pipeline},
      "run");
}

void refused(const TapRequest& request, const nlohmann::json& status,
             const std::vector<std::string>& words) {
  const std::string why = launch::never_fits(request, status);
  for (const auto& word : words) BOOST_TEST(why.find(word) != std::string::npos, why);
  BOOST_TEST(!why.empty());
}

const actors::Pipeline kThree{
    .pp = 3, .dp = 2, .stage_of_chunk = {0, 1, 2}, .copies = 1, .microbatches = 8};

}  // namespace

BOOST_AUTO_TEST_CASE(what_can_come_is_not_refused) {
  const auto status = status_of(kThree);
  for (const TapRequest& request : {TapRequest{.from = 0, .to = 1},
                                    {.from = 4, .to = 5},
                                    {.from = 2, .to = 1, .backward = true},
                                    {.from = 1, .to = 2, .microbatch = 7},
                                    {.from = 1, .to = 2, .every = 50}})
    BOOST_TEST(launch::never_fits(request, status) == "");
  // Before the first configuration nothing is known yet.
  BOOST_TEST(launch::never_fits({.from = 7, .to = 9}, status_of({})) == "");
}

BOOST_AUTO_TEST_CASE(what_can_never_come_is_refused_with_what_can) {
  const auto status = status_of(kThree);
  refused({.from = 0, .to = 1, .backward = true}, status,
          {"no gradients travel over edge 0:1, only activations", "1:0, 2:1, 4:3, 5:4"});
  refused({.from = 0, .to = 2}, status, {"no activations travel over edge 0:2;", "0:1, 1:2, 3:4"});
  refused({.from = 2, .to = 3}, status, {"edge 2:3"});  // between two replicas
  refused({.from = 0, .to = 1, .microbatch = 99}, status, {"microbatch 99", "0:1", "0-7"});
  refused({.from = 0, .to = 1, .every = 51}, status, {"51 divides", "step 3 of 50"});
  refused({.from = 0, .to = 1, .every = 25}, status_of(kThree, 50), {"step 50 of 50"});
  refused({.from = 0, .to = 1}, status_of({.stage_of_chunk = {0}, .microbatches = 8}),
          {"one stage"});
}

BOOST_AUTO_TEST_CASE(two_copies_send_both_ways_and_each_its_own_microbatches) {
  const auto status =
      status_of({.pp = 2, .dp = 1, .stage_of_chunk = {0, 1, 1, 0}, .copies = 2, .microbatches = 8});
  BOOST_TEST(launch::never_fits({.from = 1, .to = 0, .microbatch = 4}, status) == "");
  BOOST_TEST(launch::never_fits({.from = 1, .to = 0, .backward = true, .microbatch = 3}, status) ==
             "");
  refused({.from = 1, .to = 0, .microbatch = 3}, status, {"microbatch 3", "4-7"});
}

BOOST_AUTO_TEST_CASE(a_list_of_edges_stays_short) {
  actors::Pipeline many{.pp = 100, .dp = 10, .copies = 1, .microbatches = 8};
  for (int stage = 0; stage < 100; ++stage) many.stage_of_chunk.push_back(stage);
  const std::string why = launch::never_fits({.from = 500, .to = 503}, status_of(many));
  BOOST_TEST(why.find("500:501, 0:1") != std::string::npos, why);
  BOOST_TEST(why.find("and 978 more") != std::string::npos, why);
}

BOOST_AUTO_TEST_CASE(requests_survive_the_wire) {
  const TapRequest request{.from = 1,
                           .to = 0,
                           .backward = true,
                           .every = 3,
                           .microbatch = 2,
                           .only_not_finite = true,
                           .dump = true,
                           .samples = 5};
  BOOST_TEST((launch::parse_tap(request) == request));
  nlohmann::json wrong = request;
  wrong["samples"] = -1;
  expect_error(ErrorKind::usage, {"samples"}, [&] { launch::parse_tap(wrong); });
  const auto refused = [](const char* tap, const char* word) {
    expect_error(ErrorKind::usage, {word}, [&] { launch::parse_tap(nlohmann::json::parse(tap)); });
  };
  refused("7", "tap must be an object");
  refused(R"({"from": 0})", "tap needs from and to");
  refused(R"({"from": 0, "to": "1"})", "to must be a whole number");
  refused(R"({"from": 0, "to": 1, "backward": "yes"})", "backward must be true or false");
  refused(R"({"from": 0, "to": 1, "step": 3})", "'step' is no field of tap; did you mean ");
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test
