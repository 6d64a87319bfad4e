#include "actors/agent/allegiance.h"

#include <boost/test/unit_test.hpp>

// Tests whom an agent obeys when launchers are lost, come back and take over.

namespace troupe::actors {

BOOST_AUTO_TEST_SUITE(allegiance_test)

BOOST_AUTO_TEST_CASE(before_the_run_begins_the_agent_ends_with_its_launcher) {
  Allegiance agent;
  BOOST_TEST(!agent.is_orphaned(1000));  // it has not joined yet
  agent.heard(10);
  BOOST_TEST(agent.over(18) == "");
  BOOST_TEST(agent.over(18.5) == "the launcher has not answered for 8 s");
  agent.gone(11);
  BOOST_TEST(agent.over(11) == "the launcher is gone");
}

BOOST_AUTO_TEST_CASE(a_lost_launcher_is_waited_for) {
  Allegiance agent;
  agent.heard(10);
  agent.begins(1, 120, 3);
  BOOST_TEST(!agent.is_orphaned(10));
  agent.gone(20);
  BOOST_TEST(agent.is_orphaned(20));
  BOOST_TEST(agent.over(139) == "");
  BOOST_TEST(agent.over(140) ==
             "the launcher is gone, and no other has come within cluster.director_wait = 120 s");
}

BOOST_AUTO_TEST_CASE(a_silent_launcher_that_is_heard_again_is_obeyed) {
  Allegiance agent;
  agent.heard(10);
  agent.begins(1, 120, 3);
  BOOST_TEST(!agent.is_orphaned(18));
  BOOST_TEST(agent.is_orphaned(19));
  BOOST_TEST(agent.over(100) == "");
  agent.heard(100);  // it was stopped, and went on
  BOOST_TEST(!agent.is_orphaned(101));
  BOOST_TEST(agent.over(200) == "");  // silent for 8 s, then waited for
  BOOST_TEST(agent.over(228) != "");
}

/// It must not give up a launcher that still counts on it.
BOOST_AUTO_TEST_CASE(silence_lasts_longer_than_the_launchers_patience_with_hosts) {
  Allegiance agent;
  agent.heard(10);
  agent.begins(1, 120, 20);
  BOOST_TEST(!agent.is_orphaned(35));
  BOOST_TEST(agent.is_orphaned(35.5));
  agent.heard(40);
  agent.begins(2, 0, 20);
  BOOST_TEST(agent.over(65) == "");
  BOOST_TEST(agent.over(65.5) == "the launcher has not answered for 25 s");
  agent.begins(3, 120, 0);  // it waits for a silent host for ever
  BOOST_TEST(!agent.is_orphaned(1e6));
}

BOOST_AUTO_TEST_CASE(nobody_is_waited_for_if_the_run_says_so) {
  Allegiance agent;
  agent.heard(10);
  agent.begins(1, 0, 3);
  agent.gone(12);
  BOOST_TEST(agent.over(12) == "the launcher is gone");
}

BOOST_AUTO_TEST_CASE(the_highest_term_alone_is_obeyed) {
  Allegiance agent;
  agent.heard(10);
  agent.begins(2, 120, 3);
  BOOST_TEST(!agent.turns_to(2, 11));
  BOOST_TEST(!agent.turns_to(1, 11));
  BOOST_TEST(agent.term() == 2u);
  // It need not have missed the one before.
  BOOST_TEST(agent.turns_to(3, 11));
  BOOST_TEST(agent.term() == 3u);
  BOOST_TEST(!agent.is_orphaned(11));
  agent.gone(12);
  BOOST_TEST(agent.turns_to(4, 100));
  BOOST_TEST(!agent.is_orphaned(100));
  BOOST_TEST(agent.over(107) == "");
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::actors
