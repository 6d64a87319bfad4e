#include "launch/report/step_picture.h"

#include <boost/test/unit_test.hpp>

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(step_picture_test)

namespace {

using nlohmann::json;

json action(const char* name, double begin, double end, int from = -1) {
  return {{"name", name}, {"begin_s", begin}, {"end_s", end}, {"from", from}, {"waited_s", 0}};
}
json rank(int number, int replica, json actions) {
  return {{"rank", number},
          {"replica", replica},
          {"stage", number},
          {"shard", 0},
          {"actions", std::move(actions)}};
}

/// Two stages and two microbatches by 1F1B; F takes 1 s and B 2 s, and the first message of
/// gradients comes a second late.
json late_step() {
  return {{"step", 9},
          {"ranks",
           {rank(0, 0,
                 {action("0F0", 10, 11), action("0F1", 11, 12), action("0B0", 15, 17, 1),
                  action("0B1", 18, 20, 1)}),
            rank(1, 0,
                 {action("1F0", 11, 12), action("1B0", 12, 14), action("1F1", 14, 15),
                  action("1B1", 15, 17)})}}};
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_step_is_simulated_with_the_times_of_its_actions) {
  const auto picture = launch::step_picture(late_step());
  BOOST_REQUIRE(picture);
  BOOST_TEST(picture->step == 9);
  BOOST_TEST(picture->measured_s() == 10);
  BOOST_TEST(picture->measured[0].actions[2].begin_s == 5);
  BOOST_TEST(picture->measured[0].busy_s() == 6);
  BOOST_REQUIRE(picture->predicted.size() == 2u);
  BOOST_TEST(picture->predicted_s() == 9);  // (m + p - 1)(F + B)
  BOOST_TEST(picture->predicted[0].actions[2].begin_s == 4);
  BOOST_TEST(launch::idle_share(picture->measured) == 0.4);
  const std::string words = launch::in_words(*picture);
  BOOST_TEST(words.find("took 10 s") != std::string::npos, words);
  BOOST_TEST(words.find("10 % less") != std::string::npos, words);
  BOOST_TEST(words.find("longest") == std::string::npos, words);
}

BOOST_AUTO_TEST_CASE(a_step_as_the_simulator_expects_it_is_called_the_same) {
  const json step{{"step", 9},
                  {"ranks", {rank(0, 0, {action("0F0", 10, 11), action("0B0", 11, 13)})}}};
  const std::string words = launch::in_words(*launch::step_picture(step));
  BOOST_TEST(words.find("expects the same if") != std::string::npos, words);
  BOOST_TEST(words.find("%") == std::string::npos, words);
}

BOOST_AUTO_TEST_CASE(by_how_much_clocks_of_hosts_may_differ_is_told) {
  json step = late_step();
  BOOST_TEST(launch::in_words(*launch::step_picture(step)).find("other hosts") ==
             std::string::npos);
  step["clock_error_s"] = 0.00025;
  BOOST_TEST(launch::in_words(*launch::step_picture(step))
                 .ends_with(" Times of other hosts than the first rank's may be off by 0.25 ms."));
}

BOOST_AUTO_TEST_CASE(what_waits_for_collectives_is_no_computation) {
  json step = late_step();
  step["ranks"][1]["actions"][1]["collective_s"] = 1.5;  // of the 2 s of 1B0
  step["ranks"][1]["actions"][3]["collective_s"] = 0.5;  // of those of 1B1
  const auto picture = launch::step_picture(step);
  BOOST_TEST(picture->measured[1].busy_s() == 4);
  BOOST_TEST(picture->measured[1].collective_s() == 2);
  BOOST_TEST(picture->measured[1].actions[1].collective_share() == 0.75);
  BOOST_TEST(picture->measured_s() == 10);
  BOOST_TEST(launch::idle_share(picture->measured) == 0.5);
  BOOST_TEST(picture->predicted[1].actions[1].length_s() == 1.5);  // the upper of what they compute
  const std::string words = launch::in_words(*picture);
  BOOST_TEST(words.find("stood still for collectives in 10 %") != std::string::npos, words);
}

BOOST_AUTO_TEST_CASE(the_rank_that_computes_longest_is_named) {
  json step = late_step();
  step["ranks"][1]["actions"][3]["end_s"] = 18.2;
  const std::string words = launch::in_words(*launch::step_picture(step));
  BOOST_TEST(words.find("Rank 1 (stage 1) computes longest, 9 %") != std::string::npos, words);
}

BOOST_AUTO_TEST_CASE(one_action_that_was_interrupted_does_not_change_the_prediction) {
  const auto only_rank = [](double third) {
    return json{{"step", 1},
                {"ranks",
                 {rank(0, 0,
                       {action("0F0", 0, 1), action("0F1", 1, 2), action("0F2", 2, third),
                        action("0B0", third, third + 2), action("0B1", third + 2, third + 4),
                        action("0B2", third + 4, third + 6)})}}};
  };
  BOOST_TEST(launch::step_picture(only_rank(3))->predicted_s() == 9);
  BOOST_TEST(launch::step_picture(only_rank(100))->predicted_s() == 9);
}

BOOST_AUTO_TEST_CASE(actions_at_the_same_time_count_once_as_busy) {
  const auto picture = launch::step_picture(
      {{"step", 1}, {"ranks", {rank(0, 0, {action("0F0", 0, 2), action("0B0", 1, 4)})}}});
  BOOST_REQUIRE(picture);
  BOOST_TEST(picture->measured[0].busy_s() == 4);
}

BOOST_AUTO_TEST_CASE(other_replicas_are_measured_but_not_simulated) {
  json step = late_step();
  for (json copy : json(step["ranks"])) {
    copy["replica"] = 1;
    copy["rank"] = copy["rank"].get<int>() + 2;
    step["ranks"].push_back(copy);
  }
  const auto picture = launch::step_picture(step);
  BOOST_TEST(picture->measured.size() == 4u);
  BOOST_TEST(picture->predicted.size() == 2u);
}

BOOST_AUTO_TEST_CASE(what_is_no_valid_plan_is_not_simulated) {
  json step = late_step();
  step["ranks"][0]["actions"].erase(0);
  const auto picture = launch::step_picture(step);
  BOOST_REQUIRE(picture);
  BOOST_TEST(picture->predicted.empty());
  BOOST_TEST(launch::in_words(*picture).find("simulator") == std::string::npos);
}

BOOST_AUTO_TEST_CASE(a_file_of_any_form_is_read) {
  for (const char* text :
       {"{}", R"({"ranks":7})", R"({"ranks":[{}]})", R"({"ranks":[{"actions":[{"name":"0F0"}]}]})",
        R"({"ranks":[{"actions":[{"name":"x","begin_s":1,"end_s":2}]}]})",
        R"({"ranks":[{"actions":[{"name":"0F0","begin_s":2,"end_s":1}]}]})"})
    BOOST_TEST(!launch::step_picture(json::parse(text)), text);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test
