#include <signal.h>

#include <boost/test/unit_test.hpp>
#include <cmath>
#include <nlohmann/json.hpp>

#include "tests/support/small_manifest.h"
#include "tests/support/troupe_program.h"

// Tests schedules that keep two copies of the parameters, with real processes. Their numbers are
// close to those of one process, and equal to the bit among each other, whatever happens to the
// cluster.

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(two_copies_test)

namespace {

using Numbers = std::map<int, StepNumbers>;
constexpr double kClose = 1e-6;
constexpr int kSteps = 100;
const Keys kSome{{"run.max_steps", std::to_string(kSteps)}};
const Keys kEndless{{"run.max_steps", "1000000"}};

Keys keys_of(const std::string& kind, int pp, const Keys& common = {}) {
  Keys keys{{"mesh.pp", std::to_string(pp)}, {"schedule.kind", '"' + kind + '"'}};
  keys.insert(common.begin(), common.end());
  return keys;
}

Numbers trained_numbers(const Workplace& place, const std::string& name, const Keys& keys) {
  const Finished done = troupe({"launch", place.manifest(name, keys)});
  BOOST_REQUIRE_MESSAGE(done.exit_code == 0,
                        name << " ended with " << done.exit_code << ": " << done.err);
  return step_numbers(place.run(name));
}

void check_close(const Numbers& got, const Numbers& want) {
  BOOST_REQUIRE(!got.empty());
  for (const auto& [step, numbers] : got) {
    BOOST_TEST(std::abs(numbers.loss / want.at(step).loss - 1) <= kClose);
    BOOST_TEST(std::abs(numbers.grad_norm / want.at(step).grad_norm - 1) <= 100 * kClose);
  }
}

void check_same(const Numbers& got, const Numbers& want) {
  BOOST_REQUIRE_EQUAL(got.size(), want.size());
  for (const auto& [step, numbers] : got)
    BOOST_CHECK_MESSAGE(numbers == want.at(step), "step " << step << ": loss " << numbers.loss
                                                          << " and " << want.at(step).loss);
}

}  // namespace

BOOST_AUTO_TEST_CASE(two_copies_are_close_to_one_and_equal_among_themselves) {
  const Workplace place;
  int number = 0;
  for (const Keys& common : {Keys{}, Keys{{"model.tie_word_embeddings", "true"}}}) {
    const auto train = [&](const Keys& keys) {
      return trained_numbers(place, "run" + std::to_string(number++), keys);
    };
    const Numbers dualpipe = train(keys_of("dualpipe", 2, common));
    check_close(dualpipe, train(common));
    check_same(train(keys_of("chimera", 2, common)), dualpipe);
    check_same(train(keys_of("dualpipe", 4, common)), dualpipe);
    check_same(train(keys_of("chimera", 6, common)), dualpipe);
  }
}

BOOST_AUTO_TEST_CASE(two_copies_work_with_replicas_and_evaluation) {
  const Workplace place;
  const Keys eval{{"eval.interval", "2"},
                  {"eval.files", "[\"" + (place.dir / "corpus.txt").string() + "\"]"},
                  {"mesh.dp", "2"}};
  const Numbers two = trained_numbers(place, "two", keys_of("chimera", 2, eval));
  check_close(two, trained_numbers(place, "one", eval));
  check_same(trained_numbers(place, "four", keys_of("chimera", 4, eval)), two);
}

BOOST_AUTO_TEST_CASE(a_checkpoint_of_two_copies_holds_each_parameter_once_and_goes_on_anywhere) {
  const Workplace place;
  const Numbers one = trained_numbers(place, "one", {});
  trained_numbers(place, "two", keys_of("dualpipe", 4, {{"run.max_steps", "3"}}));
  const auto from = [&](const std::string& run) {
    return Keys{{"checkpoint.resume", '"' + place.checkpoint(run, 3) + '"'}};
  };
  const Numbers rest = trained_numbers(place, "rest", keys_of("1f1b", 3, from("two")));
  BOOST_TEST(rest.size() == 3u);
  check_close(rest, one);
  trained_numbers(place, "three", {{"mesh.pp", "3"}, {"run.max_steps", "3"}});
  check_close(trained_numbers(place, "back", keys_of("chimera", 2, from("three"))), one);
}

BOOST_AUTO_TEST_CASE(a_lost_rank_takes_its_state_from_the_mirror) {
  const Workplace place;
  const Numbers undisturbed = trained_numbers(place, "undisturbed", keys_of("dualpipe", 2, kSome));
  for (const std::size_t rank : {0u, 1u}) {
    const std::string name = "rank" + std::to_string(rank);
    TroupeProgram program({"launch", place.manifest(name, keys_of("dualpipe", 2, kEndless))});
    BOOST_REQUIRE(program.read_until("step 10/"));
    kill(workers_of(place.run(name)).at(rank), SIGKILL);
    BOOST_TEST(program.read_until("recovered at step"));
    check_same(stop_after(kSteps, program, place.run(name)), undisturbed);
  }
}

BOOST_AUTO_TEST_CASE(a_cluster_too_small_for_two_copies_goes_on_with_1f1b) {
  const Workplace place;
  const Numbers one = trained_numbers(place, "one", kSome);
  Keys keys = keys_of("chimera", 2, kEndless);
  keys["recovery.on_failure"] = "\"shrink\"";
  TroupeProgram program({"launch", place.manifest("shrink", keys)});
  BOOST_REQUIRE(program.read_until("step 10/"));
  kill(workers_of(place.run("shrink")).at(0), SIGKILL);
  BOOST_TEST(program.read_until("recovered at step"));
  check_close(stop_after(kSteps, program, place.run("shrink")), one);
  // The manifest keeps the shape that was asked for, and tells that the run went on with another.
  const std::string manifest = content_of(place.run("shrink") + "/manifest.toml");
  BOOST_TEST(manifest.find("kind = \"chimera\"") != std::string::npos);
  BOOST_TEST(manifest.find("on: schedule.kind = \\\"1f1b\\\", was \\\"chimera\\\"") !=
             std::string::npos);
}

BOOST_AUTO_TEST_CASE(a_run_takes_on_two_copies_and_gives_them_up) {
  const Workplace place;
  const std::string run = place.run("run");
  TroupeProgram program({"launch", place.manifest("run", keys_of("1f1b", 2, kEndless))});
  BOOST_REQUIRE(program.read_until("step 3/"));
  const auto scale = [&](std::vector<std::string> options) {
    options.insert(options.begin(), {"scale", run});
    return troupe(options);
  };
  const Finished taken = scale({"--schedule", "dualpipe"});
  BOOST_TEST(taken.exit_code == 0, taken.err);
  const Finished odd = scale({"--pp", "3"});
  BOOST_TEST(odd.exit_code == 64);
  BOOST_TEST(odd.err.find("nearest valid number of stages is 4") != std::string::npos, odd.err);
  BOOST_TEST(scale({"--pp", "4"}).exit_code == 0);
  BOOST_TEST(scale({"--pp", "3", "--schedule", "1f1b"}).exit_code == 0);
  BOOST_TEST(troupe({"stop", run}).exit_code == 0);
  program.finish();
  const Numbers numbers = step_numbers(run);
  const std::string last = std::to_string(numbers.rbegin()->first);
  check_close(numbers, trained_numbers(place, "one", {{"run.max_steps", last}}));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test
