#include <signal.h>

#include <boost/test/unit_test.hpp>

#include "tests/support/trained_run.h"

// Tests runs that train with dropout, with real processes: however the model and the batch are
// divided, and whatever is lost on the way, they drop alike.

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(dropout_test)

namespace {

const Keys kDropout{
    {"model.hidden_dropout", "0.1"}, {"model.attention_dropout", "0.1"}, {"run.max_steps", "20"}};

}  // namespace

BOOST_AUTO_TEST_CASE(every_layout_drops_as_one_process_does) {
  const Workplace place;
  const Numbers one = trained(place, "one", kDropout);
  const Numbers none = trained(place, "none", {{"run.max_steps", "20"}});
  BOOST_TEST(distance(one, none) > 1e-3);
  int number = 0;
  for (const Keys& mesh : {Keys{{"mesh.tp", "2"}},
                           {{"mesh.tp", "2"}, {"mesh.sequence_parallel", "true"}, {"mesh.pp", "2"}},
                           {{"mesh.tp", "4"}, {"mesh.sequence_parallel", "true"}},
                           {{"mesh.dp", "2"}, {"batch.micro", "1"}},
                           {{"mesh.tp", "2"}, {"mesh.dp", "2"}, {"batch.micro", "4"}}}) {
    const std::string name = "divided" + std::to_string(number++);
    const Numbers divided = trained(place, name, with(kDropout, mesh));
    BOOST_TEST(distance(divided, one) < 2e-6, name << ": " << distance(divided, one));
  }
  for (const Keys& cut : {Keys{{"mesh.pp", "3"}},
                          {{"mesh.pp", "2"}, {"schedule.kind", "\"zb-h1\""}},
                          {{"mesh.pp", "3"}, {"mesh.layout", "\"E|t*6|L\""}}}) {
    const std::string name = "cut" + std::to_string(number++);
    BOOST_TEST((trained(place, name, with(kDropout, cut)) == one), name);
  }
}

BOOST_AUTO_TEST_CASE(a_step_that_is_done_again_drops_what_it_dropped) {
  const Workplace place;
  const Keys keys =
      with(kDropout, {{"mesh.pp", "2"}, {"run.max_steps", "100000000"}, {"batch.global", "64"}});
  const auto shm = shared_memory();
  const std::string run = place.run("killed");
  TroupeProgram program({"launch", place.manifest("killed", keys)});
  for (int kills = 0; kills < 3; ++kills) {
    BOOST_REQUIRE(program.read_until("step "));
    const auto workers = workers_of(run);
    BOOST_REQUIRE(!workers.empty());
    kill(workers[static_cast<std::size_t>(kills) % workers.size()], SIGKILL);
    BOOST_REQUIRE(program.read_until("recovered"));
  }
  BOOST_REQUIRE(program.read_until("step "));
  BOOST_TEST(troupe({"stop", run}).exit_code == 0);
  BOOST_TEST(program.finish().exit_code == 0);
  wait_for_no_more_than(shm);
  const Numbers got = step_numbers(run);
  const std::string last = std::to_string(got.rbegin()->first);
  const Numbers calm = trained(place, "calm", with(keys, {{"run.max_steps", last}}));
  BOOST_TEST((got == calm));
}

BOOST_AUTO_TEST_CASE(probabilities_beyond_their_range_are_refused) {
  const Workplace place;
  for (const char* key : {"hidden_dropout", "attention_dropout"})
    for (const char* value : {"1.0", "-0.1"}) {
      const Keys keys{{std::string("model.") + key, value}};
      const Finished done = troupe({"plan", place.manifest("bad", keys)});
      BOOST_TEST(done.exit_code == 78);
      BOOST_TEST(done.err.find(std::string("model.") + key) != std::string::npos, done.err);
      BOOST_TEST(done.err.find("at least 0 and below 1") != std::string::npos, done.err);
    }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test
