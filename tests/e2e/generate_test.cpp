// `troupe generate` with prompts from a file, shards and stages, end tokens and stop texts, and its
// answers to bad input. What its model computes is compared in stages.generator_test.

#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "tests/support/small_manifest.h"
#include "tests/support/troupe_program.h"

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(generate_test)

namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;
using Json = nlohmann::json;

/// A trained checkpoint and a file of prompts of different lengths.
class Place : public Workplace {
 public:
  explicit Place(const Keys& keys = {}) {
    BOOST_REQUIRE(troupe({"launch", manifest("run", keys)}).exit_code == 0);
    saved = checkpoint("run", 6);
    prompts = dir.write("prompts.txt", "the \nx\nab cd ef gh\n");
  }

  Finished generate(const Words& more) const {
    Words words{"generate", saved};
    words.insert(words.end(), more.begin(), more.end());
    return troupe(words);
  }
  Json json(Words more) const {
    more.push_back("--json");
    const Finished done = generate(more);
    BOOST_REQUIRE_MESSAGE(done.exit_code == 0, done.err);
    return Json::parse(done.out);
  }
  /// The greedy texts of all prompts.
  Json greedy(const Words& more = {}) const {
    Words words{"--prompt-file", prompts, "--tokens", "20", "--temperature", "0"};
    words.insert(words.end(), more.begin(), more.end());
    return json(words).at("outputs");
  }
  void refuses(const Words& more, int exit_code, const Words& says) const {
    const Finished done = generate(more);
    BOOST_TEST(done.exit_code == exit_code, done.err);
    for (const std::string& word : says)
      BOOST_TEST(done.err.find(word) != std::string::npos, "no '" << word << "' in: " << done.err);
  }

  std::string saved, prompts;
};

}  // namespace

BOOST_AUTO_TEST_CASE(each_line_of_a_file_is_a_prompt_with_the_text_that_it_has_alone) {
  const Place place;
  const Json all =
      place.json({"--prompt-file", place.prompts, "--tokens", "20", "--temperature", "0"});
  BOOST_TEST(all.at("prefill_tokens_per_s").get<double>() > 0);
  BOOST_TEST(all.at("decode_tokens_per_s").get<double>() > 0);
  BOOST_REQUIRE(all.at("outputs").size() == 3u);
  for (const Json& output : all.at("outputs")) {
    const std::string prompt = output.at("prompt");
    const std::vector<int> bytes(prompt.begin(), prompt.end());
    BOOST_TEST((output.at("prompt_ids") == Json(bytes)));
    BOOST_TEST(output.at("ids").size() == 20u);
    BOOST_TEST(output.at("finish") == "length");
    const Words alone{"--prompt", prompt, "--tokens", "20", "--temperature", "0"};
    BOOST_TEST((place.json(alone).at("outputs").at(0) == output), prompt);
    BOOST_TEST(place.generate(alone).out == prompt + output.at("text").get<std::string>() + "\n");
  }
}

BOOST_AUTO_TEST_CASE(shards_and_stages_write_the_same) {
  for (const Keys& keys : {Keys{}, Keys{{"model.kind", "\"gpt2\""},
                                        {"model.num_key_value_heads", ""},
                                        {"model.max_position_embeddings", "40"}}}) {
    const Place place(keys);
    const Json whole = place.greedy();
    for (const Words& mesh :
         {Words{"--pp", "3"}, {"--tp", "2"}, {"--pp", "2", "--tp", "2", "--threads", "2"}})
      BOOST_TEST((place.greedy(mesh) == whole), mesh[0]);
  }
}

BOOST_AUTO_TEST_CASE(a_text_ends_at_an_end_token_and_before_a_stop_text) {
  const Place place;
  const Json free = place.greedy();
  const std::string text = free.at(0).at("text"), stop = text.substr(5, 2);
  const Json stopped = place.greedy({"--stop", "no such text", "--stop", stop});
  BOOST_TEST(stopped.at(0).at("text") == text.substr(0, text.find(stop)));
  BOOST_TEST(stopped.at(0).at("finish") == "stop");

  const int end = free.at(0).at("ids").at(4);
  place.dir.write("generation_config.json", Json{{"eos_token_id", {1000, end}}}.dump());
  fs::rename(place.dir / "generation_config.json", place.saved + "/generation_config.json");
  for (std::size_t i = 0; i < free.size(); ++i) {
    const Json& ids = free.at(i).at("ids");
    const auto found = std::find(ids.begin(), ids.end(), Json(end));
    const Json expected(std::vector<Json>(ids.begin(), found == ids.end() ? found : found + 1));
    const Json output = place.greedy().at(i);
    BOOST_TEST((output.at("ids") == expected), i);
    BOOST_TEST(output.at("finish") == (found == ids.end() ? "length" : "stop"));
  }
}

BOOST_AUTO_TEST_CASE(draws_repeat_by_their_seed) {
  const Place place;
  const auto drawn = [&](const std::string& seed) {
    return place
        .json({"--prompt-file", place.prompts, "--tokens", "20", "--seed", seed, "--top-k", "20",
               "--top-p", "0.9"})
        .at("outputs");
  };
  BOOST_TEST((drawn("1") == drawn("1")));
  BOOST_TEST((drawn("1") != drawn("2")));
}

BOOST_AUTO_TEST_CASE(what_cannot_be_generated_is_refused) {
  const Place place({{"model.kind", "\"gpt2\""},
                     {"model.num_key_value_heads", ""},
                     {"model.max_position_embeddings", "20"}});
  place.refuses({"--prompt", "0123456789", "--tokens", "12"}, 64,
                {"position", "20", "--tokens 11"});
  place.refuses({"--prompt", "", "--tokens", "1"}, 64, {"prompt 1", "no token"});
  place.refuses({"--prompt-file", place.dir.write("empty", ""), "--tokens", "1"}, 65,
                {"empty", "no prompt"});
  place.refuses({"--prompt-file", "missing"}, 65, {"missing"});
  place.refuses({"--prompt-file", place.dir.write("wide", "\xff\xfe" + std::string("a\0b\0", 4))},
                65, {"wide", "UTF-16", "iconv"});
  place.refuses({"--prompt-file", place.dir.write("lines", R"({"prompt": "a"})")}, 65,
                {"lines of JSON", "jq -r .prompt"});
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test
