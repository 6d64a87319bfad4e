#include <boost/test/unit_test.hpp>

#include "launch/screen/keys.h"

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(screen_state_test)

namespace {

using launch::KeyPress;
using launch::PaneId;
using launch::Scale;
using launch::ScreenState;

const std::vector<std::string> kKinds{"failure", "note"};

bool press(ScreenState& state, KeyPress key) {
  return obey(key, state, kKinds, 10);
}
bool press(ScreenState& state, char key) {
  return press(state, static_cast<KeyPress>(key));
}

}  // namespace

BOOST_AUTO_TEST_CASE(tab_and_arrows_go_through_all_panes) {
  ScreenState state;
  const PaneId first = state.focus;
  for (int i = 0; i < launch::kNumPanes; ++i) {
    BOOST_TEST((state.focus == first) == (i == 0));
    BOOST_TEST(press(state, KeyPress::tab));
  }
  BOOST_TEST((state.focus == first));
  press(state, KeyPress::left);
  press(state, KeyPress::back_tab);
  press(state, KeyPress::right);
  press(state, KeyPress::right);
  BOOST_TEST((state.focus == first));
}

BOOST_AUTO_TEST_CASE(each_pane_is_scrolled_by_itself_and_not_above_its_top) {
  ScreenState state{.focus = PaneId::mesh};
  press(state, KeyPress::down);
  press(state, 'j');
  press(state, KeyPress::page_down);
  BOOST_TEST(state.scroll() == 12);
  press(state, KeyPress::tab);
  BOOST_TEST(state.scroll() == 0);
  press(state, KeyPress::up);
  BOOST_TEST(state.scroll() == 0);
  press(state, KeyPress::back_tab);
  press(state, 'k');
  BOOST_TEST(state.scroll() == 11);
  press(state, KeyPress::home);
  BOOST_TEST(state.scroll() == 0);
  press(state, KeyPress::end);
  BOOST_TEST(state.scroll() > 100'000);
}

BOOST_AUTO_TEST_CASE(the_filter_goes_through_the_kinds_there_are_and_begins_at_the_top) {
  ScreenState state;
  press(state, KeyPress::down);
  std::vector<std::string> filters;
  for (int i = 0; i < 3; ++i) {
    press(state, 'f');
    filters.push_back(state.filter);
  }
  BOOST_TEST((filters == std::vector<std::string>{"failure", "note", ""}));
  BOOST_TEST(state.scroll() == 0);
  press(state, 'F');
  BOOST_TEST(state.filter == "note");
  state.filter = "gone";  // a kind of which nothing is left
  press(state, 'f');
  BOOST_TEST(state.filter == "failure");
}

BOOST_AUTO_TEST_CASE(letters_choose_what_is_shown_and_q_leaves) {
  ScreenState state;
  press(state, 'l');
  BOOST_TEST((state.scale == Scale::logarithmic));
  press(state, 'l');
  BOOST_TEST((state.scale == Scale::linear));
  press(state, ' ');
  BOOST_TEST(state.frozen);
  press(state, KeyPress::enter);
  BOOST_TEST(state.large);
  press(state, KeyPress::escape);
  BOOST_TEST(!state.large);
  press(state, '?');
  BOOST_TEST(state.help);
  press(state, '?');
  BOOST_TEST(!state.help);
  press(state, '?');
  press(state, KeyPress::down);
  BOOST_TEST(!state.help);
  BOOST_TEST(press(state, 'z'));
  BOOST_TEST(!press(state, 'q'));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test
