#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <set>
#include <sstream>

#include "tests/support/small_manifest.h"
#include "tests/support/troupe_program.h"

// Tests that every manifest of launch/examples plans and trains.

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(examples_test)

namespace {

namespace fs = std::filesystem;

const fs::path kExamples = fs::path(TROUPE_SOURCE_FOLDER) / "launch/examples";

/// The arguments for a first try of an example: a folder of its own, few steps, and a corpus that
/// exists.
std::vector<std::string> tried(const std::string& command, const fs::path& example,
                               const Workplace& place) {
  const std::string corpus = "[\"" + (place.dir / "corpus.txt").string() + "\"]";
  std::vector<std::string> arguments{command, example.string()};
  for (const std::string& set :
       {"run.dir=\"" + place.run(example.stem()) + "\"", std::string("run.max_steps=2"),
        std::string("optimizer.warmup_steps=0"), "data.files=" + corpus, "eval.files=" + corpus}) {
    arguments.insert(arguments.end(), {"--set", set});
  }
  return arguments;
}

std::vector<std::string> with(std::vector<std::string> arguments, const std::string& option) {
  arguments.push_back(option);
  return arguments;
}

void check_width(const std::string& text) {
  BOOST_TEST(text.size() > 500u);
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) BOOST_TEST(line.size() <= 100u, line);
}

}  // namespace

BOOST_AUTO_TEST_CASE(plan_prints_defaults_only_when_asked) {
  const Workplace place;
  const auto arguments = tried("plan", kExamples / "interleaved.toml", place);
  const std::string set = troupe(arguments).out, all = troupe(with(arguments, "--all")).out;
  // Keys from the manifest, from an override, and from neither.
  for (const char* line : {"\nkind = \"interleaved\"\n", "\nmax_steps = 2\n"}) {
    BOOST_TEST(set.find(line) != std::string::npos, set);
    BOOST_TEST(all.find(line) != std::string::npos, all);
  }
  for (const char* line : {"\nlr = 0.001\n", "\nhead_dim = 16\n", "\n[recovery]\n"}) {
    BOOST_TEST(set.find(line) == std::string::npos, set);
    BOOST_TEST(all.find(line) != std::string::npos, all);
  }
}

BOOST_AUTO_TEST_CASE(every_example_plans_and_trains) {
  const Workplace place;
  int examples = 0;
  for (const fs::directory_entry& entry : fs::directory_iterator(kExamples)) {
    if (entry.path().extension() != ".toml") continue;
    ++examples;
    BOOST_TEST_CONTEXT(entry.path().filename()) {
      const Finished plan = troupe(tried("plan", entry.path(), place));
      BOOST_TEST(plan.exit_code == 0, plan.err);
      check_width(plan.out);
      check_width(troupe(with(tried("plan", entry.path(), place), "--all")).out);
      const Finished run = troupe(tried("launch", entry.path(), place));
      BOOST_TEST(run.exit_code == 0, run.err);
      BOOST_TEST(step_numbers(place.run(entry.path().stem())).size() == 2u);
    }
  }
  BOOST_TEST(examples >= 4);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test
