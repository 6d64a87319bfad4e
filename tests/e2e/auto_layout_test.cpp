#include <signal.h>

#include <boost/test/unit_test.hpp>
#include <chrono>
#include <thread>

#include "tests/support/small_manifest.h"
#include "tests/support/troupe_program.h"

// Tests schedule.auto_layout with real processes: it moves layers, and changes no number.

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(auto_layout_test)

namespace {

/// A step in which the last stage has nearly all the work: the head, which takes as long as ten
/// layers, and five of the six layers. However unevenly a busy machine delays the nodes that are
/// measured, another split is faster. The steps suffice to measure, to move and to judge.
const Keys kHeavyHead{{"model.vocab_size", "16384"}, {"run.max_steps", "80"}};
const std::string kUneven = "1,5";

Keys automatic(Keys keys) {
  keys.try_emplace("schedule.kind", "\"1f1b\"");
  keys.insert(kHeavyHead.begin(), kHeavyHead.end());
  keys["mesh.pp"] = "2";
  if (keys["schedule.kind"] != "\"interleaved\"") keys["mesh.layout"] = '"' + kUneven + '"';
  keys["schedule.auto_layout"] = "true";
  keys["schedule.auto_layout_gain"] = "0.0";
  keys["schedule.auto_layout_steps"] = "10";
  return keys;
}

}  // namespace

BOOST_AUTO_TEST_CASE(layers_leave_the_stage_of_a_heavy_head_and_no_loss_changes) {
  const Workplace place;
  const Finished plain = troupe({"launch", place.manifest("plain", kHeavyHead)});
  BOOST_REQUIRE_MESSAGE(plain.exit_code == 0, plain.err);
  const auto want = step_numbers(place.run("plain"));
  const std::string own =
      "\"\"\"0F0,0F1,0F2,0F3,0F4,0F5,0F6,0F7,0B0,0B1,0B2,0B3,0B4,0B5,0B6,0B7\n"
      "1F0,1B0,1F1,1B1,1F2,1B2,1F3,1B3,1F4,1B4,1F5,1B5,1F6,1B6,1F7,1B7\n\"\"\"";
  int number = 0;
  for (const Keys& keys :
       {Keys{{"schedule.kind", "\"zb-h1\""}}, Keys{{"schedule.kind", "\"interleaved\""}},
        Keys{{"schedule.kind", "\"csv\""}, {"schedule.csv", own}}}) {
    const std::string name = "run" + std::to_string(number++);
    const Finished done = troupe({"launch", place.manifest(name, automatic(keys))});
    BOOST_REQUIRE_MESSAGE(done.exit_code == 0, done.err);
    BOOST_TEST((step_numbers(place.run(name)) == want), name);
    BOOST_TEST(done.out.find("auto_layout: steps ") != std::string::npos, done.out);
  }
  // On a busy machine one measurement may suggest no move, but not all of them.
  Keys endless = automatic({});
  endless["run.max_steps"] = "1000000";
  const std::string run = place.run("endless");
  TroupeProgram program({"launch", place.manifest("endless", endless)});
  BOOST_REQUIRE(program.read_until("layers " + kUneven + " become "));
  BOOST_REQUIRE(program.read_until("measured gain"));
  const auto got = stop_after(static_cast<int>(want.size()), program, run);
  BOOST_TEST((got == want));
  // A run that is resumed keeps the split that was chosen, unless it was measured to be slower.
  const std::string manifest = content_of(run + "/manifest.toml");
  if (program.shown().find("goes back to " + kUneven) == std::string::npos)
    BOOST_TEST(manifest.find("layout = \"" + kUneven + '"') == std::string::npos, manifest);
}

/// The test makes steps in the new split three times as long, however slow the machine is, by
/// stopping a worker, which goes on with the run, in each.
BOOST_AUTO_TEST_CASE(a_move_that_loses_is_taken_back) {
  const Workplace place;
  Keys keys = automatic({});
  keys["run.max_steps"] = "1000000";
  keys["monitor.log_interval"] = "1";
  const std::string dir = place.run("run");
  TroupeProgram run({"launch", place.manifest("run", keys)});
  BOOST_REQUIRE(run.read_until("step 1/"));
  const pid_t worker = workers_of(dir).at(0);
  const auto begin = std::chrono::steady_clock::now();
  int steps = 0;
  std::string line;
  do {
    line = run.read_line();
    BOOST_REQUIRE(!line.empty());
    steps += line.starts_with("step ") ? 1 : 0;
  } while (line.find("layers " + kUneven + " become ") == std::string::npos);
  BOOST_REQUIRE(steps > 0);
  const auto stop = 2 * (std::chrono::steady_clock::now() - begin) / steps;
  for (bool told = false; !told;) {
    kill(worker, SIGSTOP);
    std::this_thread::sleep_for(stop);
    kill(worker, SIGCONT);
    do {
      line = run.read_line();
      BOOST_REQUIRE(!line.empty());
      told = line.find("auto_layout: ") != std::string::npos;
    } while (!told && !line.starts_with("step "));
  }
  BOOST_TEST(line.find("measured gain -") != std::string::npos, line);
  BOOST_TEST(line.find("slower with 95 % confidence; goes back to " + kUneven) != std::string::npos,
             line);
  BOOST_REQUIRE(run.read_until("changed at step "));
  BOOST_TEST(troupe({"stop", dir}).exit_code == 0);
  BOOST_TEST(run.finish().exit_code == 0);
  const std::string events = content_of(dir + "/events.jsonl");
  BOOST_TEST(events.find("goes back to " + kUneven) != std::string::npos, events);
  const std::string manifest = content_of(dir + "/manifest.toml");
  BOOST_TEST(manifest.find("layout = \"" + kUneven + '"') != std::string::npos, manifest);
}

BOOST_AUTO_TEST_CASE(layers_move_once_the_schedule_is_chosen_and_judged) {
  const Workplace place;
  Keys keys = automatic({{"schedule.kind", "\"auto\""}});
  keys["run.max_steps"] = "1000000";
  TroupeProgram run({"launch", place.manifest("run", keys)});
  for (const char* said : {"auto: steps ", "auto: a step of ", "auto_layout: steps "})
    BOOST_REQUIRE(run.read_until(said));
  BOOST_TEST(troupe({"stop", place.run("run")}).exit_code == 0);
  BOOST_TEST(run.finish().exit_code == 0);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test
