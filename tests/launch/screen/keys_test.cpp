#include "launch/screen/keys.h"

#include <boost/test/unit_test.hpp>

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(keys_test)

namespace {

using launch::KeyPress;
using Keys = std::vector<KeyPress>;

}  // namespace

BOOST_AUTO_TEST_CASE(keys_are_known_by_what_terminals_send) {
  launch::KeyReader reader;
  BOOST_TEST((reader.take("q \t\r\n") ==
              Keys{KeyPress{'q'}, KeyPress{' '}, KeyPress::tab, KeyPress::enter, KeyPress::enter}));
  BOOST_TEST(
      (reader.take("\x1b[A\x1b[B\x1bOC\x1bOD\x1b[Z") ==
       Keys{KeyPress::up, KeyPress::down, KeyPress::right, KeyPress::left, KeyPress::back_tab}));
  BOOST_TEST((reader.take("\x1b[5~\x1b[6~\x1b[H\x1b[4~") ==
              Keys{KeyPress::page_up, KeyPress::page_down, KeyPress::home, KeyPress::end}));
  BOOST_TEST((reader.take("\x1b") == Keys{KeyPress::escape}));
}

BOOST_AUTO_TEST_CASE(a_sequence_may_come_in_parts_and_unknown_ones_are_left_out) {
  launch::KeyReader reader;
  BOOST_TEST((reader.take("\x1b[") == Keys{}));
  BOOST_TEST((reader.take("Bj") == Keys{KeyPress::down, KeyPress{'j'}}));
  BOOST_TEST((reader.take("\x1b[1;5C\x1b[200~x") == Keys{KeyPress{'x'}}));
  BOOST_TEST((reader.take("\x1b[" + std::string(100, '1')) == Keys{}));
  BOOST_TEST((reader.take("q") == Keys{KeyPress{'q'}}));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test
