#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "stages/corpus/tokenizers/tokenizer.h"
#include "tests/support/temp_dir.h"

// Directories of LlamaTokenizer, whose ids depend on the version of transformers that wrote them.

BOOST_AUTO_TEST_SUITE(llama_tokenizer_test)

using namespace troupe;
using namespace troupe::stages;
using nlohmann::json;
using Ids = std::vector<std::int32_t>;

namespace {

json content_of(const char* name) {
  std::ifstream file(std::filesystem::path(__FILE__).parent_path() / name);
  return json::parse(file);
}

/// The tokenizer "llama2" of golden.json, in a directory.
struct Fixture {
  Fixture() {
    for (const json& golden : content_of("golden.json"))
      if (golden["name"] == "llama2") dir.write("tokenizer.json", golden["tokenizer"].dump());
  }
  std::unique_ptr<Tokenizer> open(const json& config) {
    dir.write("tokenizer_config.json", config.dump());
    return Tokenizer::open((dir / "tokenizer.json").string());
  }
  static json config_of(const std::string& version) {
    json config = {{"tokenizer_class", "LlamaTokenizer"}};
    if (!version.empty()) config["transformers_version"] = version;
    return config;
  }

  test::TempDir dir;
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(llama_tokenizer, Fixture)

BOOST_AUTO_TEST_CASE(what_version_5_wrote_is_read_by_the_rule_of_the_class) {
  const json golden = content_of("llama_golden.json");
  for (const json& expected : golden["cases"]) {
    const auto tokenizer = open(expected["config"]);
    BOOST_TEST(tokenizer->note().find("LlamaTokenizer of transformers 5") != std::string::npos);
    for (std::size_t i = 0; i < golden["texts"].size(); ++i)
      BOOST_TEST_CONTEXT(expected["config"] << " of " << golden["texts"][i]) {
        const Ids ids = expected["ids"][i];
        BOOST_TEST(tokenizer->encode(golden["texts"][i].get<std::string>()) == ids,
                   boost::test_tools::per_element());
        BOOST_TEST(tokenizer->decode(ids) == expected["decoded"][i].get<std::string>());
      }
  }
}

BOOST_AUTO_TEST_CASE(what_version_4_wrote_is_read_by_its_file) {
  for (const std::string version : {"", "4.48.0"}) {
    const auto tokenizer = open(config_of(version));
    const auto id = [&](const std::string& token) { return tokenizer->id_of(token).value(); };
    const std::int32_t mark = id("\u2581"), the = id("\u2581the"), a = id("a"), end = id("</s>");
    BOOST_TEST((tokenizer->encode("the") == Ids{the}));
    BOOST_TEST((tokenizer->encode(" the") == Ids{mark, the}));  // version 5: no mark of its own
    BOOST_TEST((tokenizer->encode("a</s>the") == Ids{mark, a, end, the}));
    BOOST_TEST(tokenizer->note().find("by its tokenizer.json, as transformers 4") !=
               std::string::npos);
  }
}

BOOST_AUTO_TEST_CASE(the_version_may_stand_in_config_json) {
  dir.write("config.json", R"({"transformers_version": "5.1.0"})");
  const Ids by_class = open(config_of(""))->encode(" the"),
            by_file = open(config_of("4.9"))->encode(" the");
  BOOST_TEST(by_class.size() == 1u);
  BOOST_TEST(by_file.size() == 2u);
  BOOST_TEST(open({{"tokenizer_class", "PreTrainedTokenizerFast"}})->note() == "");
  BOOST_TEST((open({{"tokenizer_class", "PreTrainedTokenizerFast"}})->encode(" the") == by_file));
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE_END()
