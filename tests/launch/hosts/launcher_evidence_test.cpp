#include "launch/hosts/launcher_evidence.h"

#include <boost/test/unit_test.hpp>

// Tests when a run may be taken from its launcher.

namespace troupe::launch {

BOOST_AUTO_TEST_SUITE(launcher_evidence_test)

namespace {

using Verdict = LauncherEvidence::Verdict;
using Answers = std::vector<std::optional<actors::AgentState>>;

std::optional<actors::AgentState> orphaned() {
  return actors::AgentState{.is_orphaned = true, .silent_s = 9};
}
/// It has heard its launcher so long ago.
std::optional<actors::AgentState> heard(double ago_s) {
  return actors::AgentState{.silent_s = ago_s};
}

bool is(Verdict verdict, Verdict expected) {
  return verdict == expected;
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_launcher_whose_agents_have_lost_it_is_gone_at_once) {
  LauncherEvidence evidence(3, false);
  BOOST_TEST(is(evidence.take({orphaned(), orphaned()}, 100), Verdict::gone));
}

BOOST_AUTO_TEST_CASE(one_that_is_heard_again_lives) {
  LauncherEvidence evidence(3, true);
  BOOST_TEST(is(evidence.take({orphaned(), heard(0.2)}, 100), Verdict::open));
  BOOST_TEST(is(evidence.take({orphaned(), heard(0.2)}, 100.4), Verdict::lives));
}

BOOST_AUTO_TEST_CASE(one_that_is_silent_for_long_enough_is_gone) {
  LauncherEvidence evidence(3, true);
  BOOST_TEST(is(evidence.take({heard(0.1), heard(0.3)}, 100), Verdict::open));
  BOOST_TEST(is(evidence.take({heard(1.1), heard(1.3)}, 101), Verdict::open));
  BOOST_TEST(is(evidence.take({heard(2.9), heard(3.1)}, 102.8), Verdict::open));
  BOOST_TEST(is(evidence.take({heard(3.3), heard(3.5)}, 103.2), Verdict::gone));
}

BOOST_AUTO_TEST_CASE(an_answer_that_takes_long_does_not_make_it_live) {
  LauncherEvidence evidence(3, true);
  BOOST_TEST(is(evidence.take({heard(0.5)}, 100), Verdict::open));
  BOOST_TEST(is(evidence.take({heard(1.9)}, 101.3), Verdict::open));  // answered 0.1 s later
}

BOOST_AUTO_TEST_CASE(half_of_the_hosts_must_answer_if_it_may_live) {
  const Answers one_of_three{orphaned(), std::nullopt, std::nullopt};
  BOOST_TEST(is(LauncherEvidence(3, true).take(one_of_three, 100), Verdict::alone));
  BOOST_TEST(is(LauncherEvidence(3, false).take(one_of_three, 100), Verdict::gone));
  const Answers one_of_two{orphaned(), std::nullopt};
  BOOST_TEST(is(LauncherEvidence(3, true).take(one_of_two, 100), Verdict::gone));
  BOOST_TEST(is(LauncherEvidence(3, true).take({std::nullopt}, 100), Verdict::alone));
  BOOST_TEST(is(LauncherEvidence(3, false).take({std::nullopt}, 100), Verdict::gone));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::launch
