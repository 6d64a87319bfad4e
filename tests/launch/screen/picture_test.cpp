#include "launch/screen/picture.h"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cmath>

#include "tests/launch/screen_rows.h"
#include "tests/launch/shown_run.h"

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(picture_test)

namespace {

using launch::PaneId;
using launch::RunNow;
using launch::ScreenState;

std::string screen(const RunNow& run, const ScreenState& state, int width, int height) {
  return text_of(draw_screen(run, state, width, height, 0).grid);
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

int row_of(const std::string& text, const std::string& part) {
  const std::size_t at = text.find(part);
  BOOST_REQUIRE_MESSAGE(at != std::string::npos, part << " is not in\n" << text);
  return static_cast<int>(
      std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(at), '\n'));
}

}  // namespace

BOOST_AUTO_TEST_CASE(everything_is_on_a_screen_of_80_by_24) {
  const std::string text = screen(shown_run(4, 2), {}, 80, 24);
  for (const char* part : {"first  * training", "step 50 of 200", "- loss --", "- mesh --",
                           "- last step --", "> events --", "~1 ", "*7 ", "worker lost", "q quit"})
    BOOST_TEST(has(text, part), part << " is not in\n" << text);
  BOOST_TEST(row_of(text, "- loss --") == row_of(text, "- mesh --"));
  BOOST_TEST(row_of(text, "q quit") == 23);
}

BOOST_AUTO_TEST_CASE(all_panes_are_side_by_side_on_160_by_50) {
  const std::string text = screen(shown_run(4, 2), {}, 160, 50);
  BOOST_TEST(row_of(text, "- loss --") == row_of(text, "- mesh --"));
  BOOST_TEST(row_of(text, "+-* rank 0 ") == row_of(text, "- mesh --") + 1);
  const auto layout =
      launch::layout_of(160, 50, {.step_rows = 8, .all_step_rows = 17, .mesh_rows = 2}, {});
  const auto& step = layout.panes[static_cast<std::size_t>(PaneId::step)];
  const auto& events = layout.panes[static_cast<std::size_t>(PaneId::events)];
  BOOST_TEST(step.x + step.width < events.x);
  BOOST_TEST(step.y < events.y + events.height);
}

/// No two parts overlap, whatever the size, and none reaches beyond the screen.
BOOST_AUTO_TEST_CASE(parts_never_overlap) {
  for (int width = 0; width < 200; width += 7)
    for (int height = 0; height < 70; ++height)
      for (const int ranks : {0, 1, 8, 200}) {
        const auto layout = launch::layout_of(
            width, height, {.step_rows = ranks, .all_step_rows = ranks + 9, .mesh_rows = ranks},
            {});
        std::vector<launch::Area> parts{layout.head, layout.keys};
        parts.insert(parts.end(), layout.panes.begin(), layout.panes.end());
        std::vector<int> covered(static_cast<std::size_t>(width * height));
        for (const auto& part : parts) {
          BOOST_TEST(part.y >= 0);
          BOOST_TEST((part.height <= 0 || part.y + part.height <= height));
          for (int y = part.y; y < part.y + part.height; ++y)
            for (int x = part.x; x < part.x + part.width; ++x)
              ++covered[static_cast<std::size_t>(y * width + x)];
        }
        BOOST_TEST(std::ranges::count_if(covered, [](int times) { return times > 1; }) == 0,
                   width << " x " << height);
      }
}

BOOST_AUTO_TEST_CASE(every_size_and_every_pane_is_drawn) {
  RunNow full = shown_run(4, 2);
  full.picture = launch::StepPicture{
      .step = 1,
      .measured = {{.rank = 3, .actions = {{.action = {.chunk = 0}, .begin_s = 0, .end_s = 1}}}},
      .predicted = {}};
  for (const RunNow& run : {RunNow{}, full})
    for (const int width : {0, 1, 5, 20, 59, 60, 80, 119, 120, 160, 400})
      for (const int height : {0, 1, 2, 3, 5, 13, 24, 50, 100})
        for (int pane = 0; pane < launch::kNumPanes; ++pane)
          for (const bool large : {false, true}) {
            ScreenState state{.focus = static_cast<PaneId>(pane), .large = large};
            state.scroll() = 1000;
            const auto picture = draw_screen(run, state, width, height, 3);
            BOOST_TEST(picture.grid.width() == width);
            BOOST_TEST(picture.grid.height() == height);
            state.help = true;
            draw_screen(run, state, width, height, 3);
          }
}

BOOST_AUTO_TEST_CASE(a_small_screen_has_the_pane_in_focus_and_its_keys) {
  const std::string text = screen(shown_run(2, 1), {}, 20, 5);
  BOOST_TEST(has(text, "> events"));
  BOOST_TEST(has(text, "q quit"));
  BOOST_TEST(!has(text, "mesh"));
  BOOST_TEST(has(screen(shown_run(2, 1), {.focus = PaneId::mesh}, 20, 5), "> mesh"));
}

BOOST_AUTO_TEST_CASE(a_large_pane_has_the_screen_and_the_help_names_every_key) {
  const RunNow run = shown_run(2, 2);
  const std::string large = screen(run, {.focus = PaneId::mesh, .large = true}, 80, 24);
  BOOST_TEST(has(large, "> mesh"));
  BOOST_TEST(!has(large, "events --"));
  BOOST_TEST(has(large, "64.0 MiB"));
  const std::string help = screen(run, {.help = true}, 80, 24);
  for (const char* key : {"q, Ctrl-C", "Tab", "Enter", "f, F", "l  ", "Space", "?"})
    BOOST_TEST(has(help, key), key);
}

BOOST_AUTO_TEST_CASE(a_pane_tells_how_far_it_scrolls) {
  RunNow run = shown_run(2, 1);
  for (int i = 0; i < 100; ++i)
    run.timeline.push_back({.kind = "note", .time = 100.0 + i, .text = "note"});
  const auto picture = draw_screen(run, {}, 80, 24, 0);
  const int most = picture.most_scrolled[static_cast<std::size_t>(PaneId::events)];
  BOOST_TEST(most + picture.page + 1 == 103);
  ScreenState state;
  state.scroll() = most;
  BOOST_TEST(has(screen(run, state, 80, 24), "evaluation"));
}

BOOST_AUTO_TEST_CASE(no_character_that_controls_a_terminal_is_drawn) {
  RunNow run = shown_run(2, 1);
  run.name = "\x1b[2Jevil\n\xff\xc2\x9b";
  run.timeline.push_back({.kind = "\x1b", .time = NAN, .text = "\x1b]0;title\x07\u202e"});
  run.ranks[0].state = "\r\t\x7f";
  const auto picture = draw_screen(run, {}, 160, 50, 0);
  for (int y = 0; y < 50; ++y)
    for (int x = 0; x < 160; ++x) {
      const char32_t c = picture.grid.at(x, y).glyph;
      BOOST_TEST(((c >= U' ' && c <= U'~') || c > U'\u00a0'));
      BOOST_TEST((c < U'\u2028' || c > U'\u202f'));
    }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test
