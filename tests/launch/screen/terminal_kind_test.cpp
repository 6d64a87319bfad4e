#include <boost/test/unit_test.hpp>
#include <map>
#include <string>

#include "launch/screen/frame.h"

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(terminal_kind_test)

namespace {

using launch::Colours;

launch::TerminalKind kind_of(const std::map<std::string, std::string>& environment) {
  return launch::terminal_kind([&](const char* name) {
    const auto found = environment.find(name);
    return found == environment.end() ? nullptr : found->second.c_str();
  });
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_terminal_is_what_its_environment_says) {
  BOOST_TEST(!kind_of({}).moves);
  BOOST_TEST(!kind_of({{"TERM", "dumb"}}).moves);
  BOOST_TEST(kind_of({{"TERM", "xterm"}}).moves);
  BOOST_TEST((kind_of({{"TERM", "xterm"}}).colours == Colours::eight));
  BOOST_TEST((kind_of({{"TERM", "tmux-256color"}}).colours == Colours::many));
  BOOST_TEST((kind_of({{"TERM", "foot"}, {"COLORTERM", "truecolor"}}).colours == Colours::many));
  BOOST_TEST((kind_of({{"TERM", "vt220"}}).colours == Colours::none));
}

BOOST_AUTO_TEST_CASE(no_color_means_no_colours_unless_it_is_empty) {
  BOOST_TEST((kind_of({{"TERM", "xterm-256color"}, {"NO_COLOR", "1"}}).colours == Colours::none));
  BOOST_TEST((kind_of({{"TERM", "xterm-256color"}, {"NO_COLOR", ""}}).colours == Colours::many));
}

BOOST_AUTO_TEST_CASE(the_first_locale_that_is_set_counts) {
  const auto utf8 = [](std::map<std::string, std::string> environment) {
    environment.emplace("TERM", "xterm");
    return kind_of(environment).utf8;
  };
  BOOST_TEST(!utf8({}));
  BOOST_TEST(utf8({{"LANG", "de_DE.UTF-8"}}));
  BOOST_TEST(utf8({{"LC_CTYPE", "C.utf8"}, {"LANG", "C"}}));
  BOOST_TEST(!utf8({{"LC_ALL", "C"}, {"LANG", "de_DE.UTF-8"}}));
  BOOST_TEST(utf8({{"LC_ALL", ""}, {"LANG", "de_DE.UTF-8"}}));
  BOOST_TEST(!utf8({{"TERM", "linux"}, {"LANG", "de_DE.UTF-8"}}));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test
