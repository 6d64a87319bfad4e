#include <boost/test/unit_test.hpp>
#include <fstream>
#include <random>

#include "tests/support/trained_run.h"

// Tests launched runs whose samples come from several sources.

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(mixture_test)

namespace {

class Mixed {
 public:
  Mixed() {
    std::mt19937_64 random(3);
    std::string letters, lines, digits;
    for (int i = 0; i < 3000; ++i) letters += static_cast<char>('a' + random() % 2);
    for (int i = 0; i < 60; ++i)
      lines += "{\"text\": \"" + std::string(2 + random() % 30, static_cast<char>('A' + i % 26)) +
               "\"}\n";
    for (int i = 0; i < 120; ++i) digits += static_cast<char>('0' + i % 10);
    place.dir.write("letters", letters);
    place.dir.write("documents.jsonl", lines);
    place.dir.write("digits", digits);
  }
  /// `weights` of a text of one letter, of documents, and of a small text of digits.
  Keys keys(const std::string& documents, const std::string& weights = "5, 2, 1",
            const Keys& more = {}) const {
    std::istringstream numbers(weights);
    std::string mix;
    for (const char* name : {"letters", "documents", "digits"}) {
      std::string weight;
      std::getline(numbers, weight, ',');
      const std::string file = name == std::string("documents") ? "documents.jsonl" : name;
      mix += "{name = \"" + std::string(name) + "\", files = [\"" + (place.dir / file).string() +
             "\"], weight = " + weight + "}, ";
    }
    return with({{"data.files", ""},
                 {"data.mix", "[" + mix + "]"},
                 {"data.shuffle", "true"},
                 {"batch.documents", '"' + documents + '"'}},
                more);
  }

  Workplace place;
};

}  // namespace

BOOST_AUTO_TEST_CASE(a_mixture_has_the_same_bits_on_every_pipeline_and_after_a_resume) {
  const Mixed mixed;
  for (const char* documents : {"joined", "packed"}) {
    const std::string name = documents;
    const Keys steps{
        {"run.max_steps", "8"}, {"mesh.pp", "2"}, {"mesh.dp", "2"}, {"checkpoint.interval", "3"}};
    const auto keys = [&](const Keys& more) {
      return mixed.keys(documents, "5, 2, 1", with(steps, more));
    };
    const Numbers whole = trained(mixed.place, name, keys({}));
    BOOST_REQUIRE(whole.size() == 8u);
    BOOST_TEST((trained(mixed.place, name + "-cut", keys({{"mesh.pp", "3"}})) == whole));
    const std::string from = '"' + mixed.place.checkpoint(name, 3) + '"';
    const Numbers resumed =
        trained(mixed.place, name + "-resumed", keys({{"checkpoint.resume", from}}));
    BOOST_TEST(resumed.size() == 5u);
    for (const auto& [step, numbers] : resumed)
      BOOST_TEST((whole.at(step) == numbers), name << ", step " << step);
    const Numbers one = trained(mixed.place, name + "-one", keys({{"mesh.dp", "1"}}));
    BOOST_TEST(distance(one, whole) < 1e-6);
  }
}

/// What each step of a run says of its sources.
std::vector<nlohmann::json> steps_of(const std::string& run) {
  std::ifstream file(run + "/metrics.jsonl");
  std::vector<nlohmann::json> steps;
  for (std::string line; std::getline(file, line);) steps.push_back(nlohmann::json::parse(line));
  return steps;
}

BOOST_AUTO_TEST_CASE(every_step_tells_the_loss_of_each_source) {
  const Mixed mixed;
  std::vector<nlohmann::json> whole;
  int number = 0;
  const Keys interleaved{
      {"mesh.pp", "2"}, {"schedule.kind", "\"interleaved\""}, {"schedule.chunks", "3"}};
  for (const auto& [documents, keys] :
       {std::pair{"joined", Keys{}},
        {"joined", {{"mesh.pp", "2"}, {"mesh.dp", "2"}}},
        {"joined", {{"mesh.pp", "2"}, {"schedule.kind", "\"dualpipe\""}}},
        {"packed", {{"mesh.dp", "2"}}},
        {"padded", interleaved},
        {"packed", {{"mesh.tp", "2"}, {"data.reader", "\"first-shard\""}}}}) {
    const std::string name = "run" + std::to_string(number++);
    trained(mixed.place, name, mixed.keys(documents, "5, 2, 1", keys));
    const auto steps = steps_of(mixed.place.run(name));
    BOOST_REQUIRE(steps.size() == 6u);
    for (const auto& step : steps) {
      const auto& sources = step.at("sources");
      BOOST_REQUIRE(sources.size() == 3u);
      double loss = 0;
      std::int64_t tokens = 0;
      for (const auto& source : sources) {
        loss += source["loss"].get<double>() * source["tokens"].get<double>();
        tokens += source["tokens"].get<std::int64_t>();
      }
      BOOST_TEST(tokens == step["tokens"].get<std::int64_t>());
      BOOST_TEST(loss / static_cast<double>(tokens) == step["loss"].get<double>(),
                 boost::test_tools::tolerance(1e-12));
    }
    if (documents != std::string("joined")) continue;
    // Sixteen samples of sixteen tokens by 5, 2 and 1.
    for (const auto& step : steps) {
      BOOST_TEST(step["sources"][0]["name"] == "letters");
      BOOST_TEST(step["sources"][0]["tokens"] == 10 * 16);
      BOOST_TEST(step["sources"][2]["tokens"] == 2 * 16);
    }
    if (whole.empty()) whole = steps;
    for (std::size_t i = 0; i < steps.size(); ++i)
      for (std::size_t s = 0; s < 3; ++s)
        BOOST_TEST(steps[i]["sources"][s]["loss"].get<double>() ==
                       whole[i]["sources"][s]["loss"].get<double>(),
                   boost::test_tools::tolerance(1e-5));
  }
}

BOOST_AUTO_TEST_CASE(the_status_of_a_run_tells_of_its_sources) {
  const Mixed mixed;
  const Keys keys = mixed.keys("packed", "1, 1, 1", {{"run.max_steps", "1000000"}});
  TroupeProgram run({"launch", mixed.place.manifest("run", keys)});
  BOOST_REQUIRE(run.read_until("step 2/"));
  const auto sources = status_of(mixed.place.run("run")).at("sources");
  BOOST_REQUIRE(sources.size() == 3u);
  BOOST_TEST(sources[1]["name"] == "documents");
  BOOST_TEST(sources[1]["tokens"].get<int>() > 0);
  BOOST_TEST(sources[1]["loss"].get<double>() > 0);
  stop_after(2, run, mixed.place.run("run"));
}

BOOST_AUTO_TEST_CASE(one_source_is_the_corpus) {
  const Workplace place;
  const std::string corpus = "[\"" + (place.dir / "corpus.txt").string() + "\"]";
  const Keys shuffled{{"data.shuffle", "true"}};
  const Numbers files = trained(place, "files", shuffled);
  const Numbers mix = trained(
      place, "mix",
      with(shuffled, {{"data.files", ""}, {"data.mix", "[{files = " + corpus + ", weight = 7}]"}}));
  BOOST_TEST((files == mix));
}

BOOST_AUTO_TEST_CASE(other_weights_are_another_run) {
  const Mixed mixed;
  const Numbers first = trained(mixed.place, "first", mixed.keys("joined"));
  BOOST_TEST((trained(mixed.place, "second", mixed.keys("joined", "1, 2, 5")) != first));
  const std::string from = '"' + mixed.place.checkpoint("first", 6) + '"';
  const Finished refused = troupe(
      {"launch", mixed.place.manifest(
                     "third", mixed.keys("joined", "1, 2, 5",
                                         {{"checkpoint.resume", from}, {"run.max_steps", "9"}}))});
  BOOST_TEST(refused.exit_code == 65);
  for (const char* word : {"data.mix has other tokens or weights", "its weights are now ", " 5. "})
    BOOST_TEST(refused.err.find(word) != std::string::npos, refused.err);
}

BOOST_AUTO_TEST_CASE(a_mixture_that_cannot_be_trained_on_is_refused_by_plan_too) {
  const Workplace place;
  place.dir.write("short.txt", "too short");
  place.dir.write("empty.txt", "");
  const auto refused = [&](const std::string& file, const std::string& weight, int code,
                           const std::vector<std::string>& words) {
    const std::string good = (place.dir / "corpus.txt").string();
    const std::string bad = file.empty() ? "" : (place.dir / file).string();
    const std::string mix = "[{files = [\"" + good +
                            "\"], weight = 1}, {name = \"bad\", files = [" +
                            (bad.empty() ? "" : '"' + bad + '"') + "], weight = " + weight + "}]";
    const std::string manifest = place.manifest("m", {{"data.files", ""}, {"data.mix", mix}});
    for (const char* command : {"plan", "launch"}) {
      const Finished finished = troupe({command, manifest});
      BOOST_TEST(finished.exit_code == code, finished.err);
      for (const std::string& word : words)
        BOOST_TEST(finished.err.find(word) != std::string::npos, word << "\n" << finished.err);
    }
  };
  refused("short.txt", "1", 65, {"data.mix 'bad' holds 9 tokens", "seq_len + 1 = 17"});
  refused("empty.txt", "1", 65, {"empty.txt is empty"});
  refused("nowhere.txt", "1", 65, {"nowhere.txt", "no such file"});
  refused("", "1", 78, {"a source of data.mix has no files: bad"});
  refused("short.txt", "0", 78, {"data.mix.weight = 0", "above 0"});
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test
