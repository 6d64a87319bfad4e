#include <boost/test/unit_test.hpp>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/support/trained_run.h"

// Tests launched runs that evaluate on several texts and keep the checkpoints that were the best.

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(eval_sets_test)

namespace {

using nlohmann::json;

/// Two texts, of more and of fewer samples than an evaluation takes.
class Sets {
 public:
  Sets() {
    place.dir.write("digits", std::string(900, '7') + std::string(900, '8'));
    place.dir.write("letters", "abcabcabcabcabcabcabcabcabcabcabc");
  }
  std::string path(const std::string& file) const { return (place.dir / file).string(); }
  Keys keys(const Keys& more) const {
    const std::string sets = "[{name = \"digits\", files = \"" + path("digits") +
                             "\"}, {name = \"few letters\", files = \"" + path("letters") + "\"}]";
    return with({{"run.max_steps", "8"},
                 {"batch.seq_len", "16"},
                 {"eval.interval", "2"},
                 {"eval.steps", "3"},
                 {"eval.set", sets}},
                more);
  }

  Workplace place;
};

/// The evaluations of a run's metrics.jsonl by step.
std::map<int, json> evaluations(const std::string& run) {
  std::istringstream lines(content_of(run + "/metrics.jsonl"));
  std::map<int, json> found;
  for (std::string line; std::getline(lines, line);)
    if (const json row = json::parse(line); row.contains("eval_loss")) found[row["step"]] = row;
  return found;
}

/// The steps whose checkpoints are there, with those that the file `best` names in front.
std::vector<std::string> kept(const std::string& run) {
  std::vector<std::string> names;
  std::istringstream best(content_of(run + "/checkpoints/best"));
  for (std::string name; std::getline(best, name);) names.push_back(name);
  for (const auto& entry : std::filesystem::directory_iterator(run + "/checkpoints")) {
    const std::string name = entry.path().filename().string();
    if (entry.is_directory() && std::ranges::find(names, name) == names.end())
      names.push_back(name);
  }
  return names;
}

}  // namespace

BOOST_AUTO_TEST_CASE(each_set_has_the_loss_that_it_has_alone) {
  const Sets sets;
  const Keys mesh{{"mesh.dp", "2"}, {"mesh.pp", "2"}};
  const auto run = [&](const std::string& name, const Keys& more) {
    trained(sets.place, name, sets.keys(with(mesh, more)));
    return evaluations(sets.place.run(name));
  };
  const auto both = run("both", {});
  const auto alone = [&](const std::string& file) {
    return run(file, {{"eval.set", ""}, {"eval.files", "\"" + sets.path(file) + "\""}});
  };
  const auto digits = alone("digits"), letters = alone("letters");
  BOOST_REQUIRE(both.size() == 4u);
  for (const auto& [step, row] : both) {
    const json expected{{{"name", "digits"}, {"loss", digits.at(step)["eval_loss"]}},
                        {{"name", "few letters"}, {"loss", letters.at(step)["eval_loss"]}}};
    BOOST_TEST(row["sets"] == expected);
    BOOST_TEST(row["eval_loss"] == digits.at(step)["eval_loss"], "the first is the run's");
    BOOST_TEST(!digits.at(step).contains("sets"));
  }
  const Finished report = troupe({"report", sets.place.run("both"), "--json"});
  const json shown = json::parse(report.out)["eval_sets"];
  BOOST_REQUIRE(shown.size() == 2u);
  BOOST_TEST(shown[1]["name"] == "few letters");
  BOOST_TEST(shown[1]["loss"].size() == 4u);
}

BOOST_AUTO_TEST_CASE(the_best_checkpoints_are_kept_over_a_resume) {
  const Sets sets;
  const std::string run = sets.place.run("best");
  // So high a rate that the loss on the digits, which training never shows, is lowest half way.
  const Keys keys = sets.keys({{"optimizer.lr", "0.03"},
                               {"checkpoint.interval", "2"},
                               {"checkpoint.keep", "1"},
                               {"checkpoint.keep_best", "2"}});
  trained(sets.place, "best", keys);
  const Finished done = troupe({"launch", "--resume", run, "--set", "run.max_steps=14"});
  BOOST_REQUIRE(done.exit_code == 0);
  std::vector<std::pair<double, int>> losses;
  for (const auto& [step, row] : evaluations(run)) losses.emplace_back(row["eval_loss"], step);
  BOOST_REQUIRE(losses.size() == 7u);
  std::ranges::sort(losses);
  const auto name = [](int step) { return "step-" + std::to_string(step); };
  std::vector<std::string> expected{name(losses[0].second), name(losses[1].second)};
  if (std::ranges::find(expected, "step-14") == expected.end()) expected.push_back("step-14");
  BOOST_TEST(kept(run) == expected, boost::test_tools::per_element());

  const Finished said =
      troupe({"generate", run + "/checkpoints/best", "--prompt", "7", "--tokens", "1"});
  BOOST_TEST(said.exit_code == 0);
  BOOST_TEST(
      said.err.find("takes " + run + "/checkpoints/" + expected[0] + "\n") != std::string::npos,
      said.err);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test
