#include "launch/screen/keys.h"

#include <boost/test/unit_test.hpp>

namespace troupe::test {
namespace {

using launch::Key;
using Keys = std::vector<Key>;

}  // namespace

BOOST_AUTO_TEST_CASE(keys_are_known_by_what_terminals_send) {
  launch::KeyReader reader;
  BOOST_TEST(
      (reader.take("q \t\r\n") == Keys{Key{'q'}, Key{' '}, Key::tab, Key::enter, Key::enter}));
  BOOST_TEST((reader.take("\x1b[A\x1b[B\x1bOC\x1bOD\x1b[Z") ==
              Keys{Key::up, Key::down, Key::right, Key::left, Key::back_tab}));
  BOOST_TEST((reader.take("\x1b[5~\x1b[6~\x1b[H\x1b[4~") ==
              Keys{Key::page_up, Key::page_down, Key::home, Key::end}));
  BOOST_TEST((reader.take("\x1b") == Keys{Key::escape}));
}

BOOST_AUTO_TEST_CASE(a_sequence_may_come_in_parts_and_unknown_ones_are_left_out) {
  launch::KeyReader reader;
  BOOST_TEST((reader.take("\x1b[") == Keys{}));
  BOOST_TEST((reader.take("Bj") == Keys{Key::down, Key{'j'}}));
  BOOST_TEST((reader.take("\x1b[1;5C\x1b[200~x") == Keys{Key{'x'}}));
  BOOST_TEST((reader.take("\x1b[" + std::string(100, '1')) == Keys{}));
  BOOST_TEST((reader.take("q") == Keys{Key{'q'}}));
}

}  // namespace troupe::test
