#include <boost/test/unit_test.hpp>
#include <cstring>
#include <fstream>
#include <random>

#include "tests/support/python_program.h"
#include "tests/support/trained_run.h"

// Tests launched runs on conversations, and their ids against transformers.

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(chats_test)

namespace {

using nlohmann::json;

/// Marks what the assistant generates, with a special token behind it.
constexpr const char* kTemplate = R"({{ bos_token }}{% for m in messages %}
<mask>{{ m.role }}: {% if m.role == 'assistant' %}
{% generation %}{{ m.content }}</s>{% endgeneration %}
{% else %}
{{ m.content }}</s>{% endif %}
{% endfor %})";
/// The same texts, whose parts follow from those of the first messages.
constexpr const char* kUnmarked =
    "{{ bos_token }}{% for m in messages %}{{ '<mask>' + m.role + ': ' + m.content + '</s>' }}{% "
    "endfor %}{% if add_generation_prompt %}{{ '<mask>assistant: ' }}{% endif %}";

/// Prints the ids of conversations, and how many of them are the assistant's.
constexpr const char* kIdsOf = R"(
import json, sys
from transformers import AutoTokenizer
tokenizer = AutoTokenizer.from_pretrained(sys.argv[1])
for line in open(sys.argv[2]):
    messages = json.loads(line)["messages"]
    made = tokenizer.apply_chat_template(messages, return_dict=True,
                                         return_assistant_tokens_mask=True)
    print(json.dumps({"ids": made["input_ids"], "trained": sum(made["assistant_masks"])}))
)";

json golden_tokenizer(std::size_t number) {
  return json::parse(
      content_of(TROUPE_SOURCE_FOLDER "/tests/stages/tokenizers/golden.json"))[number]["tokenizer"];
}

/// A byte-level tokenizer of which only special tokens have more than one byte.
json tokenizer_of_bytes() {
  json tokenizer = golden_tokenizer(0);
  tokenizer["model"]["merges"] = json::array();
  tokenizer["model"]["ignore_merges"] = false;
  return tokenizer;
}

/// Conversations of one question or several, and how many bytes their answers have.
struct Chats {
  std::string lines;
  std::vector<std::int64_t> answers;  // bytes and, for each, one special token
};

Chats random_chats() {
  std::mt19937_64 random(5);
  Chats chats;
  for (int i = 0; i < 64; ++i) {
    json messages = json::array();
    std::int64_t bytes = 0;
    if (i % 3 == 0) messages.push_back({{"role", "system"}, {"content", "Be brief.\n"}});
    for (std::uint64_t turn = 0; turn <= random() % 3; ++turn) {
      std::string answer(random() % 12, 'A');
      for (char& c : answer) c = "etaoin shrdl\nu1"[random() % 15];
      messages.push_back({{"role", "user"}, {"content", "the cat\n" + std::string(turn, '?')}});
      messages.push_back({{"role", "assistant"}, {"content", answer}});
      bytes += std::ssize(answer) + 1;
    }
    chats.lines += json{{"messages", messages}}.dump() + "\n";
    chats.answers.push_back(bytes);
  }
  return chats;
}

/// A tokenizer's folder and conversations for it.
struct Model {
  Model(const json& tokenizer, const char* source) {
    std::filesystem::create_directory(place.dir / "model");
    place.dir.write("model/tokenizer.json", tokenizer.dump());
    place.dir.write("model/tokenizer_config.json",
                    json{{"tokenizer_class", "PreTrainedTokenizerFast"},
                         {"bos_token", "<s>"},
                         {"clean_up_tokenization_spaces", false},
                         {"chat_template", source}}
                        .dump());
    place.dir.write("chat.jsonl", chats.lines);
  }
  std::string path(const std::string& name) const { return (place.dir / name).string(); }
  Keys keys(const Keys& more = {}) const {
    return with({{"data.files", "[\"" + path("chat.jsonl") + "\"]"},
                 {"data.tokenizer", '"' + path("model/tokenizer.json") + '"'},
                 {"data.loss_on", "\"response\""},
                 {"model.vocab_size", "400"},
                 {"batch.seq_len", "256"},
                 {"batch.documents", "\"packed\""}},
                more);
  }
  /// The tokens that each step trained.
  std::vector<std::int64_t> tokens_of_steps(const std::string& name) const {
    std::vector<std::int64_t> tokens;
    std::ifstream metrics(place.run(name) + "/metrics.jsonl");
    for (std::string line; std::getline(metrics, line);)
      tokens.push_back(json::parse(line)["tokens"]);
    return tokens;
  }

  Workplace place;
  const Chats chats = random_chats();
};

/// Sums over the sixteen conversations of each step.
std::vector<std::int64_t> by_step(const std::vector<std::int64_t>& of_chats, std::size_t steps) {
  std::vector<std::int64_t> sums(steps);
  for (std::size_t n = 0; n < 16 * steps; ++n) sums[n / 16] += of_chats[n % of_chats.size()];
  return sums;
}

}  // namespace

BOOST_AUTO_TEST_CASE(only_what_the_assistant_says_is_counted_and_trained) {
  for (const char* source : {kTemplate, kUnmarked}) {
    const Model model(tokenizer_of_bytes(), source);
    const Numbers one = trained(model.place, "one", model.keys());
    const auto tokens = model.tokens_of_steps("one");
    BOOST_TEST(tokens.size() == 6u);
    BOOST_TEST(tokens == by_step(model.chats.answers, tokens.size()),
               boost::test_tools::per_element());
    BOOST_TEST((trained(model.place, "two", model.keys({{"mesh.pp", "2"}})) == one));
    BOOST_TEST((trained(model.place, "all", model.keys({{"data.loss_on", "\"all\""}})) != one));
  }
}

BOOST_AUTO_TEST_CASE(ids_and_masks_are_those_of_transformers) {
  if (!has_transformers()) return;
  for (const std::size_t number : {0, 3}) {  // as Llama 3 and as Llama 2
    const Model model(golden_tokenizer(number), kTemplate);
    const std::string script = model.place.dir.write("ids_of.py", kIdsOf);
    std::istringstream made(output_of(python() + " " + script + " " + model.path("model") + " " +
                                      model.path("chat.jsonl") + " 2>/dev/null"));
    std::vector<std::uint16_t> expected;
    std::vector<std::int64_t> counts;
    for (std::string line; std::getline(made, line);) {
      const json chat = json::parse(line);
      for (const json& id : chat["ids"]) expected.push_back(id);
      counts.push_back(chat["trained"]);
    }
    const Finished done =
        troupe({"tokenize", model.path("chat.jsonl"), "--add-special-tokens", "--tokenizer",
                model.path("model/tokenizer.json"), "-o", model.path("tokens")});
    BOOST_REQUIRE_MESSAGE(done.exit_code == 0, done.err);
    const std::string bytes = content_of(model.path("tokens.bin"));
    std::vector<std::uint16_t> ids(bytes.size() / sizeof(std::uint16_t));
    std::memcpy(ids.data(), bytes.data(), bytes.size());
    BOOST_TEST((ids == expected), "tokenizer " << number);
    trained(model.place, "run", model.keys());
    const auto tokens = model.tokens_of_steps("run");
    BOOST_TEST(tokens == by_step(counts, tokens.size()), boost::test_tools::per_element());
  }
}

BOOST_AUTO_TEST_CASE(a_user_is_answered_as_conversations_were_trained) {
  const Model model(tokenizer_of_bytes(), kUnmarked);
  trained(model.place, "run", model.keys({{"run.max_steps", "1"}}));
  const std::string checkpoint = model.place.checkpoint("run", 1);
  const std::string prompts = model.place.dir.write("prompts.txt", "\xef\xbb\xbfthe cat\r\nhi\r\n");
  const Finished done = troupe(
      {"generate", checkpoint, "--chat", "--prompt-file", prompts, "--tokens", "1", "--json"});
  BOOST_REQUIRE_MESSAGE(done.exit_code == 0, done.err);
  const json outputs = json::parse(done.out)["outputs"];
  BOOST_TEST(outputs[0]["prompt"] == "the cat");
  const std::string text = "<s><mask>user: the cat</s><mask>assistant: ";
  const std::string file = model.place.dir.write("text.txt", text);
  BOOST_REQUIRE(troupe({"tokenize", file, "--tokenizer", model.path("model/tokenizer.json"), "-o",
                        model.path("text")})
                    .exit_code == 0);
  const std::string bytes = content_of(model.path("text.bin"));
  std::vector<std::uint16_t> ids(bytes.size() / sizeof(std::uint16_t));
  std::memcpy(ids.data(), bytes.data(), bytes.size());
  BOOST_TEST((outputs[0]["prompt_ids"] == json(ids)), outputs[0]);
}

BOOST_AUTO_TEST_CASE(conversations_that_cannot_be_read_are_named) {
  const Model model(tokenizer_of_bytes(), "{{ raise_exception('no chats') }}");
  const auto refused = [&](const std::string& words) {
    const Finished done = troupe({"launch", model.place.manifest("bad", model.keys())});
    BOOST_TEST(done.exit_code == 65);
    BOOST_TEST(done.err.find(words) != std::string::npos, done.err);
  };
  refused("chat_template: line 1: the template refuses this: no chats");
  model.place.dir.write("chat.jsonl", "{\"messages\": [{\"role\": \"user\"}]}\n");
  refused("chat.jsonl:1: message 1 has no \"content\"");
  std::filesystem::remove(model.path("model/tokenizer_config.json"));
  refused("no chat template");
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test
