#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "stages/files/hugging_face/hf_tokenizer.h"
#include "tests/support/temp_dir.h"

// Where a model's tokenizer lies, and which files are kept of it.

BOOST_AUTO_TEST_SUITE(tokenizer_places_test)

using namespace troupe;
using namespace troupe::stages;
using nlohmann::json;
namespace fs = std::filesystem;

namespace {

struct Fixture {
  test::TempDir dir;
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(tokenizer_places, Fixture)

BOOST_AUTO_TEST_CASE(a_tokenizer_is_kept_under_the_name_that_it_is_found_by) {
  const auto files_of = [&](const std::string& name, const std::string& content) {
    return hf_tokenizer_files(dir.write(name, content));
  };
  BOOST_TEST(files_of("tekken.json", "{}").contains("tekken.json"));
  test::write_file(dir / "merges.txt", "");
  const auto gpt2 = files_of("vocab.json", R"({"a": 0})");
  BOOST_TEST((gpt2.contains("vocab.json") && gpt2.contains("merges.txt")));
  BOOST_TEST(tokenizer_file("/x/qwen.tiktoken") == "qwen.tiktoken");
  BOOST_TEST(tokenizer_file("/x/my.json") == "tokenizer.json");

  const fs::path from = dir / "model";
  fs::create_directory(from);
  BOOST_TEST(tokenizer_in(from) == "");
  BOOST_TEST(tokenizer_or_bytes(from, 256) == "bytes");
  BOOST_TEST(tokenizer_or_bytes(from, 257) == "");
  for (const char* name : {"vocab.json", "x.tiktoken", "tekken.json", "tokenizer.model",
                           "tokenizer.json"}) {  // each comes before those before it
    test::write_file(from / name, "{}");
    BOOST_TEST(tokenizer_in(from) == (from / name).string());
  }
  BOOST_TEST(tokenizer_in(from, "tekken.json") == (from / "tekken.json").string());
}

BOOST_AUTO_TEST_CASE(the_version_that_wrote_a_tokenizer_is_kept_with_it) {
  json tokenizer = {{"model", {{"type", "BPE"}, {"vocab", {{"a", 0}}}, {"merges", json::array()}}}};
  const std::string path = dir.write("tokenizer.json", tokenizer.dump());
  test::write_file(dir / "tokenizer_config.json", R"({"tokenizer_class": "LlamaTokenizer"})");
  test::write_file(dir / "config.json", R"({"transformers_version": "5.24.0"})");
  const auto config = [&] {
    return json::parse(hf_tokenizer_files(path).at("tokenizer_config.json"));
  };
  BOOST_TEST(config().at("transformers_version") == "5.0.0");
  test::write_file(dir / "config.json", "{}");
  BOOST_TEST(!config().contains("transformers_version"));
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE_END()
