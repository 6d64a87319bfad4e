#include "launch/charts/markup.h"

#include <boost/test/unit_test.hpp>

#include "tests/support/xml.h"

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(markup_test)

using launch::element;
using launch::escaped;

BOOST_AUTO_TEST_CASE(an_element_is_closed_and_its_attributes_are_quoted) {
  BOOST_TEST(element("p", {{"id", "a\"b"}}, "x") == "<p id=\"a&quot;b\">x</p>");
  BOOST_TEST(element("div", {}) == "<div></div>");  // HTML does not know <div/>
  BOOST_TEST(element("br", {}) == "<br/>");
}

BOOST_AUTO_TEST_CASE(text_of_a_run_is_never_markup) {
  BOOST_TEST(escaped("<script>&'\"") == "&lt;script&gt;&amp;'&quot;");
  BOOST_TEST(launch::text_element("p", {}, "<b>") == "<p>&lt;b&gt;</p>");
}

BOOST_AUTO_TEST_CASE(bytes_that_no_page_can_hold_are_replaced) {
  const std::string replaced = "\xEF\xBF\xBD";
  BOOST_TEST(escaped("a\x01z") == "a" + replaced + "z");
  BOOST_TEST(escaped("a\xFFz") == "a" + replaced + "z");
  BOOST_TEST(escaped("a\xEF\xBF\xBFz") == "a" + replaced + "z");
  BOOST_TEST(escaped("\xC3\xA9\t\n") == "\xC3\xA9\t\n");
  for (int byte = 0; byte < 256; ++byte) {
    const std::string text = launch::text_element("p", {}, std::string(1, static_cast<char>(byte)));
    BOOST_CHECK_NO_THROW(parse_xml(text));
  }
}

BOOST_AUTO_TEST_CASE(numbers_are_short) {
  BOOST_TEST(launch::number(2) == "2");
  BOOST_TEST(launch::number(0.1254) == "0.125");
  BOOST_TEST(launch::number(-0.0001) == "0");
  BOOST_TEST(launch::number(100) == "100");
  BOOST_TEST(launch::percent(0.125) == "12.5%");
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test
