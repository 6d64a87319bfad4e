#include "launch/screen/event_lines.h"

#include <boost/test/unit_test.hpp>

#include "tests/launch/step_event.h"

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(event_lines_test)

namespace {

using namespace actors;

RunEvent event_of(EventBody body, int rank = -1) {
  return {.configuration = 1, .step = 7, .rank = rank, .body = std::move(body), .time = 100};
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_step_is_told_as_on_the_console) {
  launch::EventLines lines(107);
  BOOST_TEST(lines.line_of(step_event(7, 2.5)) ==
             "step 7/107  loss 2.5000  norm 0.000  lr 0.00e+00  3,333 tokens/s  0:00:03 left\n");
}

BOOST_AUTO_TEST_CASE(what_happens_is_told_and_signs_of_life_are_not) {
  launch::EventLines lines(100);
  BOOST_TEST(lines.line_of(event_of(FailureDetected{.cause = "killed by SIGKILL"}, 3)) ==
             "step 7  worker lost: rank 3, killed by SIGKILL\n");
  BOOST_TEST(lines.line_of(event_of(EvaluationDone{.loss = 2})) ==
             "step 7  evaluation: loss 2.0000\n");
  BOOST_TEST(lines.line_of(event_of(EvaluationDone{.loss = 2, .sets = {{"a", 2}, {"b", 3}}})) ==
             "step 7  evaluation: loss a 2.0000, b 3.0000\n");
  BOOST_TEST(lines.line_of(event_of(RankActivity{}, 1)) == "");
  BOOST_TEST(lines.line_of(event_of(DirectorActivity{})) == "");
  BOOST_TEST(lines.line_of(event_of(ActionsTraced{})) == "");
}

BOOST_AUTO_TEST_CASE(no_character_controls_a_terminal) {
  launch::EventLines lines(100);
  BOOST_TEST(lines.line_of(event_of(Note{.text = "\x1b[2J\nx\xc3"})) == "step 7  note: ?[2J?x?\n");
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test
