#include <boost/test/unit_test.hpp>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/support/python_program.h"
#include "tests/support/sentencepiece_model.h"
#include "tests/support/small_manifest.h"
#include "tests/support/troupe_program.h"

// Tests a checkpoint's tokenizer as transformers reads it.

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(hf_tokenizer_test)

namespace {

using nlohmann::json;

/// The program that prints the ids of texts.
const std::string kIdsOf = R"(
import json, sys
from transformers import AutoTokenizer
tokenizer = AutoTokenizer.from_pretrained(sys.argv[1])
print(json.dumps([tokenizer(text)["input_ids"] for text in json.load(open(sys.argv[2]))]))
)";

/// The ids that training gives a text.
std::vector<std::uint16_t> own_ids(const Workplace& place, const std::string& text,
                                   const std::string& tokenizer) {
  const std::string file = place.dir.write("one.txt", text);
  const std::string out = (place.dir / "one").string();
  for (const char* ending : {".bin", ".idx"}) std::filesystem::remove(out + ending);
  const Finished done = troupe({"tokenize", file, "--tokenizer", tokenizer, "-o", out});
  BOOST_REQUIRE_MESSAGE(done.exit_code == 0, tokenizer << " of '" << text << "': " << done.err);
  const std::string bytes = content_of(out + ".bin");
  std::vector<std::uint16_t> ids(bytes.size() / sizeof(std::uint16_t));
  std::memcpy(ids.data(), bytes.data(), bytes.size());
  return ids;
}

/// A tokenizer.json of the kind of Llama 3, and texts with the ids that Hugging Face's tokenizers
/// give them.
json llama3_golden() {
  return json::parse(content_of(TROUPE_SOURCE_FOLDER "/tests/stages/tokenizers/golden.json"))[0];
}

std::string without_special_tokens(json tokenizer) {
  tokenizer["post_processor"] = nullptr;
  return tokenizer.dump();
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_checkpoint_has_what_a_reader_of_its_tokenizer_needs) {
  const Workplace place;
  const std::string model = place.dir.write("tok.model", sentencepiece_model(0, true));
  const json texts = {"the cat sat",
                      "  two  spaces ",
                      "a\nb\n\nc\n",
                      "<s>x</s> <unk>",
                      "na\u00efve \u20ac \U0001f600",
                      "\ttab\u2581\u2581"};
  const std::string file = place.dir.write("texts.json", texts.dump());
  const std::string script = place.dir.write("ids_of.py", kIdsOf);
  const bool compares = has_transformers();
  const std::string byte_level =
      place.dir.write("tok.json", without_special_tokens(llama3_golden()["tokenizer"]));
  const std::vector<std::pair<std::string, std::string>> tokenizers{
      {"bytes", "bytes"}, {"sentencepiece", model}, {"byte_level", byte_level}};
  for (const auto& [name, tokenizer] : tokenizers) {
    BOOST_REQUIRE(troupe({"launch", place.manifest(name, {{"data.tokenizer", '"' + tokenizer + '"'},
                                                          {"model.vocab_size", "400"},
                                                          {"run.max_steps", "1"},
                                                          {"optimizer.warmup_steps", "0"}})})
                      .exit_code == 0);
    const std::string checkpoint = place.checkpoint(name, 1);
    const json config = json::parse(content_of(checkpoint + "/tokenizer_config.json"));
    BOOST_TEST(config.contains("tokenizer_class"));
    if (!compares) continue;
    const json ids = json::parse(
        output_of(python() + " " + script + " " + checkpoint + " " + file + " 2>/dev/null"));
    for (std::size_t i = 0; i < texts.size(); ++i)
      BOOST_TEST((ids[i].get<std::vector<std::uint16_t>>() == own_ids(place, texts[i], tokenizer)),
                 name << " of " << texts[i] << ": " << ids[i]);
  }
}

BOOST_AUTO_TEST_CASE(a_prompt_has_the_ids_of_its_tokenizer_with_special_tokens) {
  const Workplace place;
  const json golden = llama3_golden();
  const json& expected = golden["texts"][2];
  BOOST_REQUIRE(expected["framed"] != expected["ids"]);
  const std::string tokenizer = place.dir.write("tok.json", golden["tokenizer"].dump());
  const auto train = [&](const std::string& name, Keys keys) {
    keys.insert(
        {{"model.vocab_size", "400"}, {"run.max_steps", "1"}, {"optimizer.warmup_steps", "0"}});
    const Finished done = troupe({"launch", place.manifest(name, keys)});
    BOOST_REQUIRE_MESSAGE(done.exit_code == 0, done.err);
    BOOST_TEST(done.out.find("\ntext      nothing is put around joined texts; <s> before a prompt "
                             "with its response\n") != std::string::npos,
               done.out);
    return place.checkpoint(name, 1);
  };
  const std::string trained = train("trained", {{"data.tokenizer", '"' + tokenizer + '"'}}),
                    exported = (place.dir / "exported").string(),
                    imported = (place.dir / "imported").string();
  BOOST_REQUIRE(troupe({"export", trained, exported}).exit_code == 0);
  BOOST_REQUIRE(troupe({"import", exported, imported}).exit_code == 0);
  // A file beside it that is no tokenizer: tokenizer.json comes first.
  write_file(exported + "/tokenizer.model", "no model");
  const std::string further =
      train("further", {{"model.from", '"' + exported + '"'}, {"data.tokenizer", ""}});
  for (const std::string& model : {trained, exported, imported, further}) {
    const Finished done =
        troupe({"generate", model, "--prompt", expected["text"], "--tokens", "2", "--json"});
    BOOST_REQUIRE_MESSAGE(done.exit_code == 0, done.err);
    BOOST_TEST((json::parse(done.out)["outputs"][0]["prompt_ids"] == expected["framed"]), done.out);
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test
