#include "launch/screen/panes.h"

#include <algorithm>
#include <boost/test/unit_test.hpp>

#include "tests/launch/screen_rows.h"
#include "tests/launch/shown_run.h"

// What the panes draw, as a terminal without UTF-8 shows it.

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(panes_test)

namespace {

using launch::Canvas;
using launch::Grid;
using launch::PaneView;
using launch::RunNow;
using Rows = std::vector<std::string>;

constexpr PaneView kTop{};

/// The rows that `draw` draws on a canvas of this size.
template <typename Draw>
Rows drawn(int width, int height, Draw draw) {
  Grid grid(width, height);
  draw(Canvas(grid, {0, 0, width, height}));
  return rows_of(grid);
}

bool has(const Rows& rows, const std::string& text) {
  return std::ranges::any_of(rows,
                             [&](const std::string& row) { return row.find(text) != row.npos; });
}

/// A step of two ranks: what is forward, backward, input and weight gradients, a wait, and both
/// passes at the same time.
launch::StepPicture step_of_two() {
  using schedules::Op;
  const auto action = [](Op op, int microbatch, double begin, double end) {
    return launch::TimedAction{
        .action = {.chunk = 0, .op = op, .microbatch = microbatch}, .begin_s = begin, .end_s = end};
  };
  launch::StepPicture picture{.step = 7, .measured = {}, .predicted = {}};
  picture.measured = {{.rank = 0, .replica = 0, .stage = 0, .shard = 0, .actions = {}},
                      {.rank = 1, .replica = 0, .stage = 1, .shard = 0, .actions = {}}};
  picture.measured[0].actions = {action(Op::F, 0, 0, 0.02), action(Op::F, 1, 0.02, 0.03),
                                 action(Op::B, 0, 0.06, 0.1)};
  picture.measured[1].actions = {action(Op::F, 0, 0.02, 0.05), action(Op::I, 0, 0.02, 0.05),
                                 action(Op::W, 0, 0.05, 0.08)};
  picture.measured[0].actions[2].waited_s = 0.02;
  picture.measured[0].actions[2].from = 1;
  return picture;
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_curve_is_drawn_dot_by_dot) {
  RunNow run;
  for (int step = 1; step <= 4; ++step) run.loss.add({.x = static_cast<double>(step), .y = 3});
  const auto row = [&](int y) {
    Grid grid(15, 6);
    draw_loss({grid, {0, 0, 15, 6}}, run, kTop);
    return row_of(grid, y);
  };
  // The labels of the loss take three columns and its axis one, so that the curve has 11 by 4
  // characters, 22 by 16 dots, for the steps 0 to 4. All values are in the middle, in the ninth row
  // of dots; step 1 is the sixth dot.
  std::string line = "\u2808";
  for (int i = 0; i < 8; ++i) line += "\u2809";
  BOOST_TEST(row(3) == "3.0\u2524  " + line);
  for (const int y : {1, 2, 4, 5}) BOOST_TEST(row(y).find("\u2809") == std::string::npos);
  // Up to the first row of dots at step 5 and down again, where the smoothed line does not reach.
  run.loss.add({.x = 5, .y = 4});
  run.loss.add({.x = 6, .y = 3});
  BOOST_TEST(row(1) == "4.0\u2524        \u28a0\u2887");
}

BOOST_AUTO_TEST_CASE(the_loss_has_its_axes_its_evaluations_and_a_scale) {
  const RunNow run = shown_run(2, 1);
  const auto rows =
      drawn(60, 12, [&](const Canvas& canvas) { draw_loss(canvas, run, {.focused = true}); });
  BOOST_TEST(rows[0].starts_with("> loss -- bold: smoothed  o evaluation -----"));
  for (const char* tick : {"6+", "4+"}) BOOST_TEST(has(rows, tick), tick);
  BOOST_TEST(rows[11] == "  0                     20                     40");
  BOOST_TEST(has(rows, "o"));
  const auto log = drawn(60, 12, [&](const Canvas& canvas) {
    draw_loss(canvas, run, {.scale = launch::Scale::logarithmic});
  });
  BOOST_TEST(log[0].starts_with("- loss, logarithmic --"));
  BOOST_TEST((log != rows));
  const auto none = drawn(60, 12, [&](const Canvas& canvas) { draw_loss(canvas, RunNow{}, kTop); });
  BOOST_TEST(none[1] == "The curve begins with the first step.");
}

BOOST_AUTO_TEST_CASE(the_mesh_has_a_framed_box_for_each_rank_where_there_is_room) {
  const RunNow run = shown_run(2, 1);
  const auto rows = drawn(70, 7, [&](const Canvas& canvas) { draw_mesh(canvas, run, kTop); });
  BOOST_TEST(rows[0].starts_with("- mesh -- pp 2 ---"));
  BOOST_TEST(rows[1] == "+-* rank 0 ----------------+             +-~ rank 1 ----------------+");
  BOOST_TEST(rows[2] == "| ##############..... 75 % | > 2.0 KiB/s | ##############..... 75 % |");
  BOOST_TEST(has(rows, "running"));
  BOOST_TEST(has(rows, "waits for rank 0"));
  BOOST_TEST(has(rows, "64.0 MiB"));
  BOOST_TEST(has(rows, "25 % waited"));
  const auto wide = drawn(100, 7, [&](const Canvas& canvas) { draw_mesh(canvas, run, kTop); });
  BOOST_TEST(has(wide, "~ rank 1: replica 0, stage 1 -"));
  BOOST_TEST(has(wide, "waits for rank 0: activation of"));
}

BOOST_AUTO_TEST_CASE(hosts_of_a_run_on_several_are_below_the_mesh_lost_ones_first) {
  const RunNow run = shown_run_on_hosts();
  const auto rows = drawn(100, 11, [&](const Canvas& canvas) { draw_mesh(canvas, run, kTop); });
  BOOST_TEST(has(rows, "rank 0: replica 0, stage 0 on h0"));
  BOOST_TEST(rows[8] == "h2 lost  ranks none  lost 1 time: nothing heard for 3 s");
  BOOST_TEST(rows[9] == "h0 joined  ranks 0  shm 1.0 MiB  tcp 205 B");
  BOOST_TEST(rows[10] == "h1 joined  ranks 1  shm 1.0 MiB  tcp 205 B  lost 1 time");
  const auto low = drawn(60, 7, [&](const Canvas& canvas) { draw_mesh(canvas, run, kTop); });
  BOOST_TEST(low[5] == "h2 lost  ranks none  lost 1 time: nothing heard for 3 s");
  BOOST_TEST(low[6] == "and 2 more hosts");
  BOOST_TEST(has(low, "rank 0 on h0"));
}

BOOST_AUTO_TEST_CASE(a_small_mesh_keeps_every_rank_and_a_crowd_is_scrolled) {
  const RunNow run = shown_run(4, 2);
  const auto rows = drawn(31, 7, [&](const Canvas& canvas) { draw_mesh(canvas, run, kTop); });
  BOOST_TEST(rows[1] == "*0 #####. 75 % > ~1 #####. 75 %");
  BOOST_TEST(rows[2] == "*2 #####. 75 % > *3 #####. 75 %");
  BOOST_TEST(rows[3] == "");  // between replicas
  BOOST_TEST(rows[5] == "*6 #####. 75 % > *7 #####. 75 %");
  const RunNow crowd = shown_run(4, 16);
  const auto at = [&](int scroll) {
    return drawn(40, 5, [&](const Canvas& canvas) {
      BOOST_TEST(draw_mesh(canvas, crowd, {.scroll = scroll}) == 12);
    });
  };
  BOOST_TEST(at(0)[1].starts_with("*0 "));
  BOOST_TEST(at(3)[1].starts_with("*12 "));
  BOOST_TEST(at(1000)[1].starts_with("*48 "));
}

BOOST_AUTO_TEST_CASE(shards_are_below_each_other_and_a_lost_rank_is_marked) {
  RunNow run = shown_run(2, 1);
  for (launch::RankNow& rank : run.ranks) {
    rank.shard = rank.stage;
    rank.stage = 0;
  }
  run.ranks[1].waiting_for = "";
  run.ranks[1].state = "lost";
  const auto rows = drawn(24, 3, [&](const Canvas& canvas) { draw_mesh(canvas, run, kTop); });
  BOOST_TEST(rows[1].starts_with("*0 "));
  BOOST_TEST(rows[2].starts_with("X1 "));
}

BOOST_AUTO_TEST_CASE(a_step_is_drawn_action_by_action) {
  RunNow run;
  run.picture = step_of_two();
  const auto rows =
      drawn(60, 5, [&](const Canvas& canvas) { BOOST_TEST(draw_step(canvas, run, kTop) == 0); });
  BOOST_TEST(rows[0].starts_with("- last step -- step 7: 100 ms  F forward  B backward"));
  // 47 characters are 100 ms.
  BOOST_TEST(rows[1] == "rank 0 F0>>>>>>>F1>>>     .........B0<<<<<<<<<<<<<<<<<  70 %");
  BOOST_TEST(rows[2] == "rank 1          F0I0xxxxxxxxxxxW0============           60 %");
  BOOST_TEST(rows[3].starts_with("       0 "));
  BOOST_TEST(rows[3].find("100 ms") != std::string::npos);
  BOOST_TEST(rows[4].starts_with("Forwards and backwards of step 7 took 100 ms."));
  const auto narrow =
      drawn(20, 2, [&](const Canvas& canvas) { BOOST_TEST(draw_step(canvas, run, kTop) == 1); });
  BOOST_TEST(narrow[1].starts_with("0 F0F1"));
  const auto scrolled =
      drawn(20, 2, [&](const Canvas& canvas) { draw_step(canvas, run, {.scroll = 9}); });
  BOOST_TEST(scrolled[1].starts_with("1 "));
}

BOOST_AUTO_TEST_CASE(events_are_newest_first_and_filtered_by_kind) {
  const RunNow run = shown_run(2, 1);
  const auto shown = [&](const std::string& filter, int scroll) {
    return drawn(59, 4, [&](const Canvas& canvas) {
      draw_events(canvas, run, {.scroll = scroll, .filter = filter});
    });
  };
  BOOST_TEST(shown("", 0)[0].starts_with("- events -- all: 3 ---"));
  BOOST_TEST(shown("", 0)[1] == "     31  recovered     rank 1: the run went on after 500 ms");
  BOOST_TEST(shown("", 0)[2] == "     30  worker lost   rank 1 was killed");
  BOOST_TEST(shown("", 0)[3] == "     25  evaluation    loss 3.0000");
  BOOST_TEST(shown("failure", 0)[0].starts_with("- events -- worker lost: 1 ---"));
  BOOST_TEST(shown("failure", 0)[2] == "");
  BOOST_TEST(shown("director", 0)[1] == "     50  director      3 messages wait");
  BOOST_TEST((kinds_of_events(run) == Rows{"evaluation", "failure", "recovered", "director"}));
  BOOST_TEST(shown("note", 0)[1] == "Nothing has happened yet.");
  const auto small = drawn(58, 3, [&](const Canvas& canvas) {
    BOOST_TEST(draw_events(canvas, run, {.scroll = 1}) == 1);
  });
  BOOST_TEST(small[2] == "     25  evaluation    loss 3.0000");
}

BOOST_AUTO_TEST_CASE(a_long_text_is_cut_or_goes_on_in_the_next_line) {
  RunNow run;
  run.timeline = {{.kind = "note", .step = 1, .text = std::string(30, 'a') + " bbb ccc"}};
  const auto few = drawn(55, 3, [&](const Canvas& canvas) { draw_events(canvas, run, kTop); });
  BOOST_TEST(few[1] == "      1  note          " + std::string(30, 'a') + " ~");
  const auto many = drawn(55, 12, [&](const Canvas& canvas) { draw_events(canvas, run, kTop); });
  BOOST_TEST(many[1] == "      1  note          " + std::string(30, 'a'));
  BOOST_TEST(many[2] == std::string(23, ' ') + "bbb ccc");
}

BOOST_AUTO_TEST_CASE(the_head_tells_state_progress_and_the_newest_numbers) {
  RunNow run = shown_run(2, 1);
  const auto rows = drawn(100, 4, [&](const Canvas& canvas) { draw_head(canvas, run); });
  BOOST_TEST(rows[0].starts_with("first  * training  pp 2 "));
  BOOST_TEST(rows[0].ends_with(" 0:01:01 left"));
  BOOST_TEST(rows[1] == std::string(20, '=') + std::string(58, '-') + "  step 50 of 200  25 %");
  BOOST_TEST(rows[2].starts_with("loss 2.5657 smoothed "));
  for (const char* fact :
       {"eval 3.0000", "3,000 tokens/s", "100 ms a step", "norm 1.500", "lr 0.001"})
    BOOST_TEST(has(rows, fact), fact);
  run.mood = RunNow::Mood::failed;
  run.doing = "rank 1 was killed";
  const auto failed = drawn(60, 1, [&](const Canvas& canvas) { draw_head(canvas, run); });
  BOOST_TEST(failed[0].starts_with("first  X failed"));
  BOOST_TEST(failed[0].ends_with("rank 1 was killed"));
  run.doing = "5 attempts in a row ended before a step was committed; the last: rank 1 was killed";
  const auto cut = drawn(60, 1, [&](const Canvas& canvas) { draw_head(canvas, run); });
  BOOST_TEST(cut[0].starts_with("first  X failed"));
  BOOST_TEST(cut[0].find("5 attempts in a row ended") != std::string::npos, cut[0]);
}

BOOST_AUTO_TEST_CASE(as_many_keys_are_told_as_fit) {
  const auto keys = [](int width, std::uint64_t missed) {
    return drawn(width, 1, [&](const Canvas& canvas) { draw_keys(canvas, false, missed); })[0];
  };
  BOOST_TEST(keys(80, 0) ==
             "q quit  ? help  Tab pane  ^v scroll  Enter large  f filter  l log  Space freeze");
  BOOST_TEST(keys(20, 0) == "q quit  ? help");
  BOOST_TEST(keys(40, 7) == "q quit  ? help           7 events missed");
  BOOST_TEST(keys(3, 0) == "");
}

BOOST_AUTO_TEST_CASE(text_takes_the_columns_it_is_said_to_take) {
  BOOST_TEST(launch::columns_of("a\u00e4\u4e2d\x1b[2J") == 7);  // the wide one and ESC are one each
  BOOST_TEST(launch::cut("abcdef", 4) == "abc\u2026");
  BOOST_TEST(launch::cut("abcdef", 6) == "abcdef");
  BOOST_TEST(launch::cut("abcdef", 0) == "");
  BOOST_TEST((launch::wrapped("aa bb cccccc", 5) == Rows{"aa bb", "ccccc", "c"}));
  BOOST_TEST((launch::wrapped("", 5) == Rows{}));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test
