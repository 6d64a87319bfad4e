#include <boost/test/unit_test.hpp>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/support/on_terminal.h"
#include "tests/support/sentencepiece_model.h"
#include "tests/support/small_manifest.h"
#include "tests/support/troupe_program.h"

// Tests what a user sees while text becomes tokens.

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(tokenize_test)

namespace {

namespace fs = std::filesystem;

std::string text_of(std::size_t bytes) {
  std::string text;
  while (text.size() < bytes) text += "the cat sat on the mat and the cat sat\n";
  return text;
}

constexpr char kCtrlC = 3;

}  // namespace

BOOST_AUTO_TEST_CASE(the_terminal_shows_how_far_the_text_is) {
  const TempDir dir;
  const std::string model = dir.write("tok.model", sentencepiece_model());
  const std::string text = dir.write("text.txt", text_of(100000));
  OnTerminal program({"tokenize", text, "--tokenizer", model, "-o", (dir / "out").string()});
  BOOST_TEST(program.finish() == 0, program.shown());
  const std::size_t end = program.shown().find("tokenized 97.");
  BOOST_TEST(end != std::string::npos, program.shown());
  BOOST_TEST(program.shown().find("tokenized", end + 1) == std::string::npos, program.shown());
}

BOOST_AUTO_TEST_CASE(what_is_no_utf8_is_told) {
  const TempDir dir;
  const std::string model = dir.write("tok.model", sentencepiece_model());
  std::vector<std::string> command{"tokenize"};
  for (int i = 0; i < 12; ++i)
    command.push_back(dir.write("text" + std::to_string(i), "the caf\xe9"));
  for (const auto& word :
       {std::string("--tokenizer"), model, std::string("-o"), (dir / "out").string()})
    command.push_back(word);
  const Finished done = troupe(command);
  BOOST_TEST(done.exit_code == 0, done.err);
  BOOST_TEST(
      done.err.find("troupe: warning: " + command[1] + ": byte 8 is no UTF-8") != std::string::npos,
      done.err);
  BOOST_TEST(done.err.find("troupe: warning: so it is in 2 more files\n") != std::string::npos,
             done.err);
}

BOOST_AUTO_TEST_CASE(a_text_that_is_stopped_half_way_leaves_nothing) {
  const Workplace place;
  const std::string model = place.dir.write("tok.model", sentencepiece_model());
  const std::string text = place.dir.write("large.txt", text_of(std::size_t{64} << 20));
  const std::string cache = (place.dir / "cache").string();
  setenv("XDG_CACHE_HOME", cache.c_str(), 1);
  const std::string out = (place.dir / "out").string();
  const std::vector<std::vector<std::string>> commands{
      {"tokenize", text, "--tokenizer", model, "-o", out},
      {"launch", place.manifest("run", {{"data.files", "[\"" + text + "\"]"},
                                        {"data.tokenizer", '"' + model + '"'}})}};
  for (const auto& command : commands) {
    OnTerminal program(command);
    BOOST_REQUIRE(program.read_until("% done"));
    program.press(kCtrlC);
    BOOST_TEST(program.finish() == 75, program.shown());
    BOOST_TEST(
        program.shown().find("stopped by SIGINT while text was tokenized") != std::string::npos,
        program.shown());
  }
  unsetenv("XDG_CACHE_HOME");
  for (const auto& entry : fs::directory_iterator(place.dir.path()))
    BOOST_TEST(!entry.path().filename().string().starts_with("out"), entry.path());
  BOOST_TEST(fs::is_empty(fs::path(cache) / "troupe"));
  BOOST_TEST(!fs::exists(place.run("run")));
}

BOOST_AUTO_TEST_CASE(what_is_wrong_with_a_text_is_told_by_its_name) {
  const Workplace place;
  BOOST_REQUIRE(troupe({"launch", place.manifest("run")}).exit_code == 0);
  const std::string text = place.dir.write("short.txt", "too short");
  const Finished eval = troupe({"eval", place.checkpoint("run", 6), "--files", text});
  BOOST_TEST(eval.exit_code == 65);
  BOOST_TEST(eval.err.find(text + ": 9 tokens") != std::string::npos, eval.err);
  BOOST_TEST(eval.err.find(".tokens") == std::string::npos, eval.err);
}

BOOST_AUTO_TEST_CASE(a_dataset_is_told_as_json_or_why_there_is_none) {
  const TempDir dir;
  const std::string lines = dir.write("in.JSON", "{\"text\": \"ab\"}\n{\"text\": \"c\"}\n");
  const std::string prefix = (dir / "out").string();
  const Finished made = troupe({"tokenize", lines, "-o", prefix, "--json"});
  BOOST_REQUIRE_MESSAGE(made.exit_code == 0, made.err);
  BOOST_TEST(made.err == "");
  BOOST_TEST((nlohmann::json::parse(made.out) == nlohmann::json{{"prefix", prefix},
                                                                {"tokens", 3},
                                                                {"documents", 2},
                                                                {"sequences", 2},
                                                                {"bytes_per_token", 2}}),
             made.out);
  const std::string nowhere = (dir / "nowhere" / "out").string();
  const Finished lost = troupe({"tokenize", lines, "-o", nowhere});
  BOOST_TEST(lost.exit_code == 65);
  BOOST_TEST(lost.err.find(nowhere + ".bin: cannot create") != std::string::npos, lost.err);
}

BOOST_AUTO_TEST_CASE(special_tokens_are_put_around_documents) {
  const TempDir dir;
  const std::string tokenizer = dir.write("tok.json", R"({"added_tokens": [
    {"id": 2, "content": "<s>", "special": true}, {"id": 3, "content": "</s>", "special": true}],
    "post_processor": {"type": "TemplateProcessing", "single": [
      {"SpecialToken": {"id": "<s>"}}, {"Sequence": {"id": "A"}}],
      "special_tokens": {"<s>": {"ids": [2]}}},
    "model": {"type": "BPE", "vocab": {"a": 0, "b": 1}, "merges": []}})");
  const std::string lines = dir.write("in.jsonl", "{\"text\": \"ab\"}\n{\"text\": \"\"}\n");
  const auto ids_with = [&](const std::vector<std::string>& options) {
    const std::string out = (dir / "out").string();
    for (const char* ending : {".bin", ".idx"}) fs::remove(out + ending);
    std::vector<std::string> command{"tokenize", lines, "--tokenizer", tokenizer, "-o", out};
    command.insert(command.end(), options.begin(), options.end());
    const Finished done = troupe(command);
    BOOST_REQUIRE_MESSAGE(done.exit_code == 0, done.err);
    std::string ids;
    const std::string bin = content_of(out + ".bin");
    for (std::size_t i = 0; i < bin.size(); i += 2) ids += static_cast<char>('0' + bin[i]);
    return ids;
  };
  BOOST_TEST(ids_with({}) == "01");
  BOOST_TEST(ids_with({"--add-special-tokens"}) == "2012");
  BOOST_TEST(ids_with({"--append", "</s>"}) == "0133");
  BOOST_TEST(ids_with({"--add-special-tokens", "--append", "</s>"}) == "201323");
  const Finished unknown = troupe({"tokenize", lines, "--tokenizer", tokenizer, "-o",
                                   (dir / "never").string(), "--append", "<eot>"});
  BOOST_TEST(unknown.exit_code == 64);
  BOOST_TEST(unknown.err.find("no token \"<eot>\"") != std::string::npos, unknown.err);
  const std::string other = dir.write("other.json", R"({"model": {"type": "WordPiece"}})");
  const Finished refused =
      troupe({"tokenize", lines, "--tokenizer", other, "-o", (dir / "never").string()});
  BOOST_TEST(refused.exit_code == 65);
  BOOST_TEST(refused.err.find("other.json: model: ") != std::string::npos, refused.err);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test
