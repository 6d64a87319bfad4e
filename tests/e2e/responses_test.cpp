#include <boost/test/unit_test.hpp>
#include <fstream>
#include <random>
#include <sstream>

#include "tests/support/trained_run.h"

// Tests launched runs that train on responses and not on their prompts.

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(responses_test)

namespace {

/// Documents of a prompt and a response, as JSON lines, and the bytes of their responses.
struct Conversation {
  std::string lines;
  std::vector<std::int64_t> responses;
};

/// Prompts of `prompt` bytes, and responses of up to 12.
Conversation conversation(std::size_t prompt) {
  std::mt19937_64 random(11);
  Conversation made;
  for (int i = 0; i < 64; ++i) {
    const std::string question(prompt, static_cast<char>('a' + i % 26));
    std::string answer(1 + random() % 12, 'A');
    for (char& c : answer) c = static_cast<char>('A' + random() % 26);
    made.lines += nlohmann::json{{"prompt", question}, {"response", answer}}.dump() + "\n";
    made.responses.push_back(std::ssize(answer));
  }
  return made;
}

class Responses {
 public:
  explicit Responses(std::size_t prompt) : all_(conversation(prompt)) {
    file_ = place.dir.write("chat.jsonl", all_.lines);
  }
  Keys keys(const std::string& documents, const Keys& more = {}) const {
    return with({{"data.files", "[\"" + file_ + "\"]"},
                 {"data.loss_on", "\"response\""},
                 {"batch.documents", '"' + documents + '"'}},
                more);
  }
  Numbers train(const std::string& name, const std::string& documents,
                const Keys& more = {}) const {
    return trained(place, name, keys(documents, more));
  }
  /// The response bytes of a step of sixteen samples, each a whole document.
  std::int64_t trained_bytes(int step) const {
    std::int64_t bytes = 0;
    for (int n = 0; n < 16; ++n)
      bytes += all_.responses[static_cast<std::size_t>((step - 1) * 16 + n) % 64];
    return bytes;
  }

  std::int64_t response(int n) const { return all_.responses[static_cast<std::size_t>(n)]; }

  Workplace place;

 private:
  const Conversation all_;
  std::string file_;
};

}  // namespace

BOOST_AUTO_TEST_CASE(only_tokens_of_responses_are_counted_and_trained) {
  const Responses chat(4);
  const Numbers packed = chat.train("packed", "packed");
  std::ifstream metrics(chat.place.run("packed") + "/metrics.jsonl");
  int steps = 0;
  for (std::string line; std::getline(metrics, line); ++steps) {
    const auto step = nlohmann::json::parse(line);
    BOOST_TEST(step["tokens"] == chat.trained_bytes(step["step"].get<int>()));
  }
  BOOST_TEST(steps == 6);
  // The first loss of a fresh model is that of a guess, with its prompts or without.
  BOOST_TEST(std::abs(packed.at(1).loss - std::log(256.0)) < 0.2);
  BOOST_TEST((chat.train("all", "packed", {{"data.loss_on", "\"all\""}}) != packed));
  BOOST_TEST(distance(chat.train("padded", "padded"), packed) < 2e-6);
}

BOOST_AUTO_TEST_CASE(responses_have_the_same_bits_on_every_pipeline_and_after_a_resume) {
  const Responses chat(20);  // longer than a sample: its first piece is all prompt
  const Keys keys{{"data.shuffle", "true"},
                  {"checkpoint.interval", "3"},
                  {"eval.interval", "3"},
                  {"eval.steps", "1"},
                  {"eval.files", "[\"" + (chat.place.dir / "chat.jsonl").string() + "\"]"}};
  const Numbers one = chat.train("one", "packed", keys);
  BOOST_TEST((chat.train("two", "packed", with(keys, {{"mesh.pp", "2"}})) == one));
  BOOST_TEST(distance(chat.train("replicas", "packed", with(keys, {{"mesh.dp", "2"}})), one) <
             1e-6);
  BOOST_TEST(distance(chat.train("shards", "packed", with(keys, {{"mesh.tp", "2"}})), one) < 2e-6);
  const std::string from = '"' + chat.place.checkpoint("one", 3) + '"';
  const Keys resumed = with(keys, {{"mesh.pp", "2"}, {"checkpoint.resume", from}});
  for (const auto& [step, numbers] : chat.train("resumed", "packed", resumed))
    BOOST_TEST((one.at(step) == numbers), "step " << step);
  const Finished refused = troupe(
      {"launch", chat.place.manifest(
                     "other", chat.keys("packed", with(resumed, {{"data.loss_on", "\"all\""}})))});
  BOOST_TEST(refused.exit_code == 65);
  BOOST_TEST(refused.err.find("data.loss_on is all, was response") != std::string::npos,
             refused.err);
}

// Of a set that is no multiple of a step, and that is smaller than asked for: by steps of sixteen
// samples in the run, of which the second has four, and of eight in the command.
BOOST_AUTO_TEST_CASE(a_checkpoint_evaluates_as_its_run_did_and_each_sample_once) {
  const Responses chat(4);
  std::istringstream lines(content_of(chat.place.dir / "chat.jsonl"));
  std::string few, line;
  for (int i = 0; i < 20 && std::getline(lines, line); ++i) few += line + "\n";
  const std::string held_out = chat.place.dir.write("few.jsonl", few);
  const Keys evaluated{
      {"eval.interval", "6"}, {"eval.steps", "100"}, {"eval.files", "[\"" + held_out + "\"]"}};
  const auto command = [&](const std::string& name, const std::vector<std::string>& more) {
    std::vector<std::string> words{"eval", chat.place.run(name), "--files", held_out};
    words.insert(words.end(), more.begin(), more.end());
    const Finished done = troupe(words);
    BOOST_REQUIRE_MESSAGE(done.exit_code == 0, done.err);
    BOOST_TEST(done.err.find("checkpoints/step-6") != std::string::npos, done.err);
    return done.out;
  };
  const auto check = [&](const std::string& name, const Keys& keys) {
    trained(chat.place, name, with(keys, evaluated));
    std::ifstream metrics(chat.place.run(name) + "/metrics.jsonl");
    double loss = 0;
    for (std::string text; std::getline(metrics, text);)
      loss = nlohmann::json::parse(text).value("eval_loss", loss);
    const auto result = nlohmann::json::parse(command(name, {"--json"}));
    BOOST_TEST(std::abs(result["loss"].get<double>() / loss - 1) < 5e-6, name);
    return result;
  };
  std::int64_t responses = 0;
  for (int i = 0; i < 20; ++i) responses += chat.response(i);
  for (const std::string documents : {"packed", "padded"}) {
    const auto result = check(documents, chat.keys(documents, {{"mesh.dp", "2"}}));
    BOOST_TEST(result["tokens"] == responses);
    BOOST_TEST(result["loss_on"] == "response");
  }
  BOOST_TEST(check("joined", {{"mesh.pp", "2"}})["documents"] == "joined");
  const std::string shown = std::to_string(responses) + " tokens of responses in packed documents";
  BOOST_TEST(command("packed", {}).find(shown) != std::string::npos);
  const auto all = nlohmann::json::parse(
      command("packed", {"--loss-on", "all", "--documents", "joined", "--json"}));
  BOOST_TEST(all["tokens"].get<std::int64_t>() > responses);
  const Finished refused = troupe(
      {"eval", chat.place.run("packed"), "--files", (chat.place.dir / "corpus.txt").string()});
  BOOST_TEST(refused.exit_code == 65);
  BOOST_TEST(refused.err.find("--loss-on all") != std::string::npos, refused.err);
}

BOOST_AUTO_TEST_CASE(what_has_no_responses_is_refused_by_plan_too) {
  const Responses chat(4);
  const auto refused = [&](const std::string& documents, const Keys& more, int code,
                           const std::string& words) {
    for (const char* command : {"plan", "launch"}) {
      const Finished done =
          troupe({command, chat.place.manifest("bad", chat.keys(documents, more))});
      BOOST_TEST(done.exit_code == code);
      BOOST_TEST(done.err.find(words) != std::string::npos, done.err);
    }
  };
  refused("joined", {}, 78, "take 'packed' or 'padded'");
  const std::string text = (chat.place.dir / "corpus.txt").string();
  refused("packed", {{"data.files", "[\"" + text + "\"]"}}, 65, "corpus.txt: no JSON lines");
  refused("packed", {{"eval.files", "[\"" + text + "\"]"}}, 65, "corpus.txt: no JSON lines");
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test
