#include "launch/host/suggest.h"

#include <array>
#include <boost/test/unit_test.hpp>

BOOST_AUTO_TEST_SUITE(suggest_test)

using namespace troupe::launch;

BOOST_AUTO_TEST_CASE(the_smallest_edit_distance_wins_and_ties_go_to_the_first) {
  constexpr std::array<std::string_view, 4> names{"seq_len", "micro", "global", "macro"};
  BOOST_TEST(nearest("micor", names) == "micro");
  BOOST_TEST(nearest("globl", names) == "global");
  BOOST_TEST(nearest("length", names) == "seq_len");
  BOOST_TEST(nearest("macro", names) == "macro");
  BOOST_TEST(nearest("mcro", names) == "micro");
  BOOST_TEST(nearest("", names) == "micro");
  BOOST_TEST(!nearest(std::string(1000000, 'x'), names).empty());
  BOOST_TEST(quoted_list(names) == "'seq_len', 'micro', 'global', 'macro'");
}

BOOST_AUTO_TEST_SUITE_END()
