#include <signal.h>

#include <boost/test/unit_test.hpp>

#include "tests/support/browser.h"
#include "tests/support/small_manifest.h"
#include "tests/support/troupe_program.h"

// The page of a run in a browser, as a person uses it.

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(web_page_test)

namespace {

namespace tt = boost::test_tools;
using nlohmann::json;

tt::assertion_result browser_is_installed(boost::unit_test::test_unit_id) {
  tt::assertion_result result(Browser::installed().has_value());
  result.message() << "neither chromium-headless-shell nor chromium is installed";
  return result;
}

std::string rows_with(const std::string& text) {
  return "[...document.querySelectorAll('#events tbody tr')].filter(r => !r.hidden && "
         "!r.querySelector('tbody') && r.textContent.includes('" +
         text + "')).length";
}

/// A run that goes on until it is stopped, and its page in a browser.
struct Watched {
  Workplace place;
  std::string run = place.run("run");
  TroupeProgram program;
  std::optional<Browser> browser;

  explicit Watched(Keys keys)
      : program({"launch", place.manifest("run", with(std::move(keys), place))}) {
    BOOST_REQUIRE(program.read_until("step 3/"));
    browser.emplace(*Browser::installed(), status_of(run).at("endpoints").at("web"), 1400, 900);
    browser->wait_for("document.querySelector('#head').textContent.includes('training')");
  }

  static Keys with(Keys keys, const Workplace& place) {
    keys["run.max_steps"] = "1000000";
    keys["monitor.web"] = "\"127.0.0.1:0\"";
    keys["eval.interval"] = "5";
    keys["eval.steps"] = "1";
    keys["eval.files"] = "[\"" + (place.dir / "corpus.txt").string() + "\"]";
    return keys;
  }
  void end() {
    BOOST_TEST(browser->errors() == "");
    program.signal(SIGTERM);
    const Finished done = program.finish();
    BOOST_TEST(done.exit_code == 0, done.err);
    browser->wait_for("document.querySelector('#head').textContent.includes('ended in order')");
    BOOST_TEST(browser->value_of("document.querySelector('#silence').textContent") == "");
  }
};

}  // namespace

BOOST_AUTO_TEST_CASE(a_person_sees_the_run_and_what_happens_to_it,
                     *boost::unit_test::precondition(browser_is_installed)) {
  Watched watched({{"mesh.pp", "2"}, {"mesh.dp", "2"}});
  Browser& page = *watched.browser;
  page.wait_for("document.querySelectorAll('#mesh .rank').length === 4");
  page.wait_for("document.querySelector('#loss path.smooth')");
  page.wait_for("document.querySelectorAll('#step .box').length > 0");
  BOOST_TEST(page.value_of("document.querySelectorAll('#mesh .arrow').length") == 2);
  BOOST_TEST(page.value_of("document.title") == "run: training");

  // A hint is shown on pointing and for the keyboard.
  page.click("#mesh .rank");
  page.wait_for("!document.querySelector('#hint').hidden");
  BOOST_TEST(page.value_of("document.querySelector('#hint').textContent")
                 .get<std::string>()
                 .starts_with("rank 0: replica 0, stage 0"));
  page.press("Escape");
  BOOST_TEST(page.value_of("document.querySelector('#hint').hidden") == true);
  page.press("Tab");
  page.wait_for("!document.querySelector('#hint').hidden");

  // Arrows lead through a picture that has the focus. A scroll, of which the page hears late, would
  // hide the spot.
  const std::string hint = "document.querySelector('#hint').textContent";
  page.value_of("document.querySelector('#step .plot').focus({preventScroll: true})");
  page.press("ArrowRight");
  page.wait_for(hint + ".startsWith('rank 0')");
  page.press("ArrowDown");
  page.wait_for("!" + hint + ".startsWith('rank 0')");
  BOOST_TEST(page.value_of("document.querySelector('#spot').hidden") == false);

  // A part becomes what the run has drawn, and what is the same in it stays.
  BOOST_TEST(page.value_of(
                 "(() => { const made = html => { const e = document.createElement('div'); "
                 "e.innerHTML = html; return e; }; const old = made('<b>1</b><i>2</i><b>3</b>'); "
                 "const first = old.firstChild; morph(old, made('<b>1</b><u>2</u><b>4</b>')); "
                 "return [old.innerHTML, first === old.firstChild]; })()") ==
             json::parse(R"(["<b>1</b><u>2</u><b>4</b>",true])"));

  // The scale of the loss is changed by the keyboard, and what has the focus keeps it.
  page.value_of("document.querySelector('#log').focus()");
  const auto ticks = page.value_of("document.querySelector('#loss .names').textContent");
  page.press("Enter");
  BOOST_TEST(page.value_of("document.querySelector('#log').getAttribute('aria-pressed')") ==
             "true");
  page.wait_for("versions.loss && document.querySelector('#loss path.smooth')");
  BOOST_TEST(page.value_of("document.activeElement.id") == "log");

  kill(workers_of(watched.run).at(1), SIGKILL);
  BOOST_REQUIRE(watched.program.read_until("recovered at step "));
  page.wait_for(rows_with("worker lost") + " === 1");
  page.wait_for(rows_with("recovered") + " >= 1");
  page.wait_for("document.querySelectorAll('#events .bar .part').length > 0");
  page.wait_for("document.querySelector('#loss .cross')");
  page.wait_for("document.querySelector('#head').textContent.includes('training')");

  BOOST_TEST(page.value_of(rows_with("wait for the director")) == 0);
  page.click("#routine");
  page.wait_for(rows_with("wait for the director") + " > 0");
  page.click("#routine");
  page.wait_for(rows_with("wait for the director") + " === 0");
  page.wait_for(rows_with("evaluation") + " > 0");
  page.click("[data-kind=evaluation]");
  BOOST_TEST(page.value_of(rows_with("evaluation")) == 0);
  page.click("[data-kind=recovered]");  // hides its phases, too
  BOOST_TEST(page.value_of(rows_with("recovered")) == 0);
  page.click("#search");
  page.value_of(
      "(() => { const s = document.querySelector('#search'); s.value = 'SIGKILL'; "
      "s.dispatchEvent(new Event('input')); })()");
  BOOST_TEST(page.value_of(rows_with("worker lost")) == 1);
  BOOST_TEST(page.value_of(rows_with("pp 2 x dp 2")) == 0);

  // A page that nobody sees shows the end nevertheless.
  page.value_of(
      "Object.defineProperty(document, 'hidden', {get: () => true}); "
      "document.dispatchEvent(new Event('visibilitychange'))");
  page.wait_for("waiting !== null");
  watched.end();
}

BOOST_AUTO_TEST_CASE(the_page_fits_every_window_and_names_what_it_shows,
                     *boost::unit_test::precondition(browser_is_installed)) {
  Watched watched({{"mesh.pp", "4"}, {"mesh.dp", "2"}});
  Browser& page = *watched.browser;
  page.wait_for("document.querySelectorAll('#mesh .rank').length === 8");
  page.wait_for("document.querySelectorAll('#step .box').length > 0");
  for (const int width : {1400, 900, 390}) {
    page.resize(width, 900);
    BOOST_TEST(page.value_of("document.documentElement.scrollWidth <= innerWidth") == true, width);
  }
  for (const char* nameless :
       {"[...document.querySelectorAll('[role=img], [role=group], [role=progressbar]')].filter(e "
        "=> !e.getAttribute('aria-label'))",
        "[...document.querySelectorAll('button, input')].filter(e => !e.textContent && "
        "!e.labels.length && !e.getAttribute('aria-label'))"})
    BOOST_TEST(page.value_of(std::string(nameless) + ".length") == 0, nameless);
  watched.end();
}

BOOST_AUTO_TEST_CASE(an_order_is_shown_before_it_is_given_and_needs_the_token,
                     *boost::unit_test::precondition(browser_is_installed)) {
  Watched watched({});
  Browser& page = *watched.browser;
  const auto text_of = [&](const std::string& selector) {
    return "document.querySelector('" + selector + "').textContent";
  };
  const auto fill = [&](const std::string& selector, const std::string& value) {
    page.value_of("(() => { const e = document.querySelector('" + selector + "'); e.value = '" +
                  value + "'; e.dispatchEvent(new Event('input', {bubbles: true})); })()");
  };
  // The answer to an order moves the buttons, so that a click while it comes may miss.
  const auto give = [&](const std::string& button) {
    page.click(button);
    page.wait_for("document.querySelector('#answer').ariaBusy === 'false'");
  };
  page.click("#orders-open");
  page.wait_for("document.querySelector('#orders').open");
  fill("#token", "guessed");
  give("#greet button");
  page.wait_for(text_of("#answer") + ".includes('not the token')");
  const json control = json::parse(content_of(watched.run + "/control.json"));
  fill("#token", control.at("token").get<std::string>());
  give("#greet button");
  page.wait_for("!document.querySelector('#change').hidden");

  BOOST_TEST(page.value_of("document.querySelector('#scale').disabled") == true);
  BOOST_TEST(page.value_of("document.querySelector('[name=schedule]').options[0].textContent") ==
             "as it is: 1f1b");
  fill("[name=pp]", "1000");
  give("#change button");
  page.wait_for("document.querySelector('#answer').className === 'bad'");
  BOOST_TEST(page.value_of("document.querySelector('#scale').disabled") == true);
  fill("[name=pp]", "2");
  give("#change button");
  page.wait_for("!document.querySelector('#scale').disabled");
  BOOST_TEST(page.value_of(text_of("#answer")).get<std::string>().find("then: pp 2 x dp 1") !=
             std::string::npos);
  give("#scale");
  page.wait_for("document.querySelectorAll('#mesh .rank').length === 2");
  page.wait_for(text_of("#order") + ".includes('pp 1 x dp 1')");

  // The manifest asks for no checkpoints.
  BOOST_TEST(page.value_of(rows_with("checkpoint")) == 0);
  give("#save");
  page.wait_for(rows_with("checkpoint") + " === 1");
  give("#tap");
  page.wait_for(text_of("#answer") + ".includes('microbatch')");
  give("#trace");
  page.wait_for(text_of("#answer") + ".includes('traced')");
  page.click("#stop");
  page.click("#stop");
  const Finished done = watched.program.finish();
  BOOST_TEST(done.exit_code == 0, done.err);
  BOOST_TEST(page.errors() == "");
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test
