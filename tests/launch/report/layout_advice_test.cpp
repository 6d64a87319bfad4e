#include "launch/report/layout_advice.h"

#include <boost/test/unit_test.hpp>

#include "launch/manifest/resolve/run_spec.h"
#include "tests/launch/manifest_text.h"

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(layout_advice_test)

namespace {

using nlohmann::json;

/// A 1F1B step of two stages and four microbatches; on the second one actions take `slow` times as
/// long.
launch::StepPicture step_of(double slow) {
  const auto row = [](int rank, const std::vector<std::string>& names, double each) {
    json actions = json::array();
    double now = rank;
    for (const std::string& name : names) {
      const double length = each * (name[1] == 'F' ? 1 : 2);
      actions.push_back({{"name", name}, {"begin_s", now}, {"end_s", now + length}, {"from", -1}});
      now += length;
    }
    return json{
        {"rank", rank}, {"replica", 0}, {"stage", rank}, {"shard", 0}, {"actions", actions}};
  };
  return *launch::step_picture(
      {{"step", 5},
       {"ranks",
        {row(0, {"0F0", "0F1", "0B0", "0F2", "0B1", "0F3", "0B2", "0B3"}, 1),
         row(1, {"1F0", "1B0", "1F1", "1B1", "1F2", "1B2", "1F3", "1B3"}, slow)}}});
}

std::string advice(const launch::StepPicture& picture, const std::vector<std::string>& overrides) {
  return launch::layout_advice(picture, to_run_spec(checked(kSmallManifest, overrides)));
}

}  // namespace

BOOST_AUTO_TEST_CASE(layers_would_move_away_from_a_slow_stage) {
  const std::string words = advice(step_of(1.5), {"mesh.pp=2"});
  BOOST_TEST(words.find("With 4,2 instead of 3,3 layers") != std::string::npos, words);
  BOOST_TEST(words.find("% shorter") != std::string::npos, words);
}

BOOST_AUTO_TEST_CASE(a_slow_stage_would_have_more_replicas) {
  const std::string words = advice(step_of(3), {"mesh.pp=2"});
  BOOST_TEST(words.find("Stage 1 is the slowest: with 2 replicas of it (troupe scale RUN --stage 1 "
                        "--dp 2)") != std::string::npos,
             words);
}

BOOST_AUTO_TEST_CASE(nothing_is_advised_where_nothing_is_gained_or_known) {
  const std::string equal = advice(step_of(1), {"mesh.pp=2"});
  BOOST_TEST(equal.find("No other split") != std::string::npos, equal);
  BOOST_TEST(advice(step_of(1.5), {"mesh.pp=3"}) == "");  // the step is of another shape
  BOOST_TEST(advice(step_of(1.5), {}) == "");
  launch::StepPicture unknown = step_of(1.5);
  unknown.predicted.clear();
  BOOST_TEST(advice(unknown, {"mesh.pp=2"}) == "");
}

BOOST_AUTO_TEST_CASE(an_advice_stands_for_a_while_but_not_for_another_shape) {
  int asked = 0;
  launch::Advisor advisor([&] {
    if (++asked == 3) throw Error(ErrorKind::data, "the file is gone");
    return to_run_spec(checked(kSmallManifest, {"mesh.pp=2"}));
  });
  const std::string words = advisor.advice("pp 2", step_of(1.5));
  BOOST_TEST(words.find("4,2") != std::string::npos);
  BOOST_TEST(advisor.advice("pp 2", step_of(1)) == words);
  BOOST_TEST(asked == 1);
  BOOST_TEST(advisor.advice("pp 2, gpipe", step_of(1)) != words);
  BOOST_TEST(asked == 2);
  BOOST_TEST(advisor.advice("pp 3", step_of(1.5)) == "");
  BOOST_TEST(launch::Advisor({}).advice("pp 2", step_of(1.5)) == "");
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test
