#include <signal.h>

#include <boost/test/unit_test.hpp>
#include <fstream>
#include <random>

#include "tests/support/trained_run.h"

// Tests launched runs whose samples are documents, padded or packed.

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(documents_test)

namespace {

/// A .jsonl of documents of many lengths: some too short for a sample, some longer than one.
std::string write_documents(const Workplace& place) {
  std::mt19937_64 random(5);
  std::string lines;
  for (int i = 0; i < 200; ++i) {
    std::string text(i % 17 == 0 ? i % 2 : random() % (i % 9 == 0 ? 60 : 16), 'a');
    for (char& c : text) c = static_cast<char>('a' + random() % 26);
    lines += nlohmann::json{{"text", text}}.dump() + "\n";
  }
  return place.dir.write("documents.jsonl", lines);
}

class Documents {
 public:
  Keys keys(const std::string& how, const Keys& more = {}) const {
    return with({{"batch.documents", '"' + how + '"'}, {"data.files", "[\"" + file_ + "\"]"}},
                more);
  }
  Keys evaluations() const {
    return {{"eval.interval", "3"}, {"eval.steps", "2"}, {"eval.files", "[\"" + file_ + "\"]"}};
  }
  Numbers train(const std::string& name, const std::string& how, const Keys& more = {}) const {
    return trained(place, name, keys(how, more));
  }
  /// The "tokens" of each step in metrics.jsonl.
  std::vector<std::int64_t> tokens(const std::string& name) const {
    std::ifstream file(place.run(name) + "/metrics.jsonl");
    std::vector<std::int64_t> tokens;
    for (std::string line; std::getline(file, line);) {
      const auto json = nlohmann::json::parse(line);
      if (json.contains("tokens")) tokens.push_back(json["tokens"].get<std::int64_t>());
    }
    return tokens;
  }

  Workplace place;

 private:
  std::string file_ = write_documents(place);
};

}  // namespace

BOOST_AUTO_TEST_CASE(packed_documents_have_the_same_bits_on_every_pipeline) {
  const Documents documents;
  const Numbers one = documents.train("one", "packed");
  BOOST_REQUIRE(one.size() == 6u);
  int number = 0;
  for (const Keys& keys :
       {Keys{{"mesh.pp", "2"}}, Keys{{"mesh.pp", "3"}, {"schedule.kind", "\"gpipe\""}},
        Keys{{"mesh.pp", "2"}, {"schedule.kind", "\"interleaved\""}, {"schedule.chunks", "3"}},
        Keys{{"mesh.pp", "2"}, {"schedule.kind", "\"zb-v\""}},
        Keys{{"mesh.pp", "2"}, {"recompute.mode", "\"full\""}}}) {
    const std::string name = "cut" + std::to_string(number++);
    BOOST_TEST((documents.train(name, "packed", keys) == one), name);
  }
}

BOOST_AUTO_TEST_CASE(padded_documents_replicas_and_shards_have_the_losses_of_packed_ones) {
  const Documents documents;
  const Numbers one = documents.train("one", "packed", documents.evaluations());
  const auto differs = [&](const std::string& name, const std::string& how, const Keys& keys) {
    const Numbers other = documents.train(name, how, with(documents.evaluations(), keys));
    BOOST_TEST(documents.tokens(name) == documents.tokens("one"), boost::test_tools::per_element());
    return distance(one, other);
  };
  BOOST_TEST(differs("padded", "padded", {}) < 2e-6);
  BOOST_TEST(differs("replicas", "packed", {{"mesh.dp", "2"}, {"mesh.pp", "2"}}) < 1e-6);
  const Keys shards{{"mesh.tp", "2"}, {"mesh.sequence_parallel", "true"}, {"mesh.pp", "2"}};
  BOOST_TEST(differs("shards", "packed", shards) < 2e-6);
  const Numbers first =
      documents.train("first", "packed", with(shards, {{"data.reader", "\"first-shard\""}}));
  BOOST_TEST((first == documents.train("every", "packed", shards)));
}

BOOST_AUTO_TEST_CASE(the_targets_of_a_step_are_counted_and_not_its_padding) {
  const Documents documents;
  documents.train("joined", "joined");
  documents.train("packed", "packed");
  for (const std::int64_t tokens : documents.tokens("joined")) BOOST_TEST(tokens == 16 * 16);
  const auto packed = documents.tokens("packed");
  BOOST_REQUIRE(packed.size() == 6u);
  for (const std::int64_t tokens : packed) BOOST_TEST((tokens >= 16 && tokens < 16 * 16));
}

BOOST_AUTO_TEST_CASE(a_dataset_has_the_documents_of_the_lines_it_was_made_from) {
  const Documents documents;
  const std::string prefix = (documents.place.dir / "dataset").string();
  const Finished made = troupe({"tokenize", (documents.place.dir / "documents.jsonl").string(),
                                "--tokenizer", "bytes", "-o", prefix});
  BOOST_REQUIRE_MESSAGE(made.exit_code == 0, made.err);
  const Numbers lines = documents.train("lines", "packed");
  BOOST_TEST((documents.train("dataset", "packed", {{"data.files", "[\"" + prefix + ".bin\"]"}}) ==
              lines));
}

BOOST_AUTO_TEST_CASE(a_loss_a_rescale_and_a_resume_change_nothing) {
  const Documents documents;
  const Keys keys{{"mesh.pp", "2"}, {"run.max_steps", "40"}, {"checkpoint.interval", "20"}};
  const Numbers whole = documents.train("whole", "packed", keys);

  TroupeProgram program(
      {"launch", documents.place.manifest("hurt", documents.keys("packed", keys))});
  BOOST_REQUIRE(program.read_until("step 3"));
  const auto workers = workers_of(documents.place.run("hurt"));
  if (!workers.empty()) kill(workers.back(), SIGKILL);
  BOOST_TEST(program.finish().exit_code == 0);
  BOOST_TEST((step_numbers(documents.place.run("hurt")) == whole));

  const Keys resumed{{"mesh.pp", "3"},
                     {"run.max_steps", "40"},
                     {"checkpoint.resume", '"' + documents.place.checkpoint("whole", 20) + '"'}};
  for (const auto& [step, numbers] : documents.train("resumed", "packed", resumed))
    BOOST_TEST((whole.at(step) == numbers), "step " << step);
  const Finished refused =
      troupe({"launch", documents.place.manifest("other", documents.keys("joined", resumed))});
  BOOST_TEST(refused.exit_code != 0);
  BOOST_TEST(refused.err.find("batch.documents is joined, was packed") != std::string::npos,
             refused.err);
}

BOOST_AUTO_TEST_CASE(a_corpus_without_a_whole_document_is_refused) {
  const Documents documents;
  const std::string empty =
      documents.place.dir.write("short.jsonl", "{\"text\": \"a\"}\n{\"text\": \"\"}\n");
  const Finished refused = troupe(
      {"launch", documents.place.manifest(
                     "short", documents.keys("packed", {{"data.files", "[\"" + empty + "\"]"}}))});
  BOOST_TEST(refused.exit_code == 65);
  for (const char* word : {"data.files", "2 documents", "at least 2 tokens", "joined"})
    BOOST_TEST(refused.err.find(word) != std::string::npos, refused.err);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test
