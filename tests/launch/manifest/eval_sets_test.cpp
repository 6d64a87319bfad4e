#include <boost/test/unit_test.hpp>

#include "launch/manifest/resolve/run_spec.h"
#include "tests/launch/manifest_text.h"
#include "tests/support/expect_error.h"

// [[eval.set]]: several texts to evaluate on.

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(eval_sets_test)

namespace {

const std::string kTwo = std::string(kSmallManifest) + R"(
[[eval.set]]
name = "code"
files = ["/corpus/b*.txt", "/corpus/c.txt"]

[[eval.set]]
files = "/corpus/text.jsonl"
)";

void refused(const std::string& text, const std::vector<std::string>& words,
             const std::vector<std::string>& overrides = {}) {
  expect_error(ErrorKind::manifest, words, [&] { checked(text, overrides); });
}

}  // namespace

BOOST_AUTO_TEST_CASE(sets_have_names_and_files) {
  const auto m = checked(kTwo, {"eval.interval=5"});
  const launch::EvalSets expected{{.name = "code", .files = {"/corpus/b*.txt", "/corpus/c.txt"}},
                                  {.name = "/corpus/text.jsonl", .files = {"/corpus/text.jsonl"}}};
  BOOST_TEST((m->eval.sets == expected));
  const auto again = launch::Manifest::parse(m.to_toml(), "again", {});
  BOOST_TEST((again->eval.sets == expected));
  BOOST_TEST(launch::to_run_spec(m).eval.sets.at(1).name == "/corpus/text.jsonl");
}

BOOST_AUTO_TEST_CASE(what_launch_has_written_into_a_set_is_read_again) {
  auto m = checked(kTwo);
  const launch::EvalSets written{
      {.name = "a b", .files = {"/x"}, .tokens = "/t", .digest = "d", .samples = 7}};
  m.resolve(m->eval.sets, written);
  const auto again = launch::Manifest::parse(m.to_toml(), "again", {});
  BOOST_TEST((again->eval.sets == written));
  BOOST_TEST(launch::to_run_spec(again).eval.sets.at(0).samples == 7);
}

BOOST_AUTO_TEST_CASE(bad_sets_are_refused) {
  refused(kTwo, {"eval.files and eval.set are both given"}, {"eval.files=/a.txt"});
  refused(kTwo + "[[eval.set]]\nname = \"x\"\n", {"a table of [[eval.set]] has no files"});
  refused(kTwo + "[[eval.set]]\nfiles = []\n", {"a set of eval.set has no files"});
  refused(kTwo + "[[eval.set]]\nname = \"code\"\nfiles = \"/d\"\n",
          {"two sets of eval.set are named 'code'"});
  refused(kTwo + "[[eval.set]]\nfiles = \"/d\"\nweight = 2\n",
          {"unknown key 'weight' of [[eval.set]]", "'name', 'files'"});
  std::string many = kTwo;
  for (int i = 0; i < 20; ++i) many += "[[eval.set]]\nfiles = \"/" + std::to_string(i) + "\"\n";
  refused(many, {"eval.set has 22 sets, at most 16"});
  refused(kSmallManifest, {"eval.interval = 5 needs eval.files", "[[eval.set]]"},
          {"eval.interval=5"});
}

BOOST_AUTO_TEST_CASE(the_best_checkpoints_need_evaluations) {
  refused(kTwo, {"checkpoint.keep_best = 2", "eval.interval = 0"}, {"checkpoint.keep_best=2"});
  refused(kTwo, {"save_top_k", "checkpoint.keep_best"}, {"checkpoint.save_top_k=2"});
}

BOOST_AUTO_TEST_CASE(the_loss_of_a_set_is_compared_with_those_on_the_same_samples) {
  using Eval = actors::RunSpec::Eval;
  const Eval eval{.steps = 2, .sets = {{.digest = "d", .samples = 100}, {.digest = "e"}}};
  BOOST_TEST(Eval{}.compared(8) == "");
  BOOST_TEST(eval.compared(8) == "d, 16 samples");
  Eval longer = eval, other = eval;
  longer.steps = 3;
  other.sets[0].digest = "f";
  BOOST_TEST(longer.compared(8) != eval.compared(8));
  BOOST_TEST(other.compared(8) != eval.compared(8));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test
