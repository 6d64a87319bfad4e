#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <nlohmann/json.hpp>

#include "tests/support/small_manifest.h"
#include "tests/support/trained_run.h"
#include "tests/support/troupe_program.h"

// Models go in and out as a user sends them: the same weights train the same, whatever way they
// came.

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(hugging_face_test)

namespace {

using nlohmann::json;
namespace fs = std::filesystem;

/// A trained checkpoint, and the Hugging Face directory that export made of it.
struct Model {
  Workplace place;
  std::string checkpoint;
  std::string exported;

  Model() {
    trained(place, "first", {{"run.max_steps", "2"}});
    checkpoint = place.checkpoint("first", 2);
    exported = (place.dir / "exported").string();
    done({"export", checkpoint, exported});
    write_file(fs::path(exported) / "generation_config.json", R"({"eos_token_id": 7})");
  }

  static Finished done(const std::vector<std::string>& arguments) {
    Finished finished = troupe(arguments);
    BOOST_REQUIRE_MESSAGE(finished.exit_code == 0, arguments[0] << ": " << finished.err);
    return finished;
  }
  static void refused(int code, const std::vector<std::string>& words,
                      const std::vector<std::string>& arguments) {
    const Finished finished = troupe(arguments);
    BOOST_TEST(finished.exit_code == code, finished.err);
    for (const std::string& word : words)
      BOOST_TEST(finished.err.find(word) != std::string::npos, word << " not in " << finished.err);
  }
  /// The numbers of a run that begins with the weights of this directory and says nothing else of
  /// the model.
  Numbers from(const std::string& name, const std::string& model, const Keys& more = {}) const {
    Keys keys{{"model.from", '"' + model + '"'}, {"data.tokenizer", ""}};
    for (const char* key : {"hidden_size", "intermediate_size", "num_hidden_layers",
                            "num_attention_heads", "num_key_value_heads", "vocab_size"})
      keys["model." + std::string(key)] = "";
    return trained(place, name, with(std::move(keys), more));
  }
  std::string path(const std::string& name) const { return (place.dir / name).string(); }
};

}  // namespace

BOOST_FIXTURE_TEST_CASE(every_way_in_trains_the_same, Model) {
  const std::string imported = path("imported");
  done({"import", exported, imported});
  const Numbers expected =
      trained(place, "weights",
              {{"checkpoint.resume", '"' + checkpoint + '"'}, {"checkpoint.weights_only", "true"}});
  BOOST_TEST(expected.size() == 6u);
  BOOST_TEST((from("exported", exported) == expected));
  BOOST_TEST((from("imported", imported) == expected));
  BOOST_TEST((from("checkpoint", checkpoint) == expected));
  BOOST_TEST((from("two", imported, {{"mesh.pp", "2"}}) == expected));
  BOOST_TEST(distance(from("shards", exported, {{"mesh.tp", "2"}}), expected) < 2e-6);
  BOOST_TEST((trained(place, "imported-weights",
                      {{"checkpoint.resume", '"' + imported + '"'},
                       {"checkpoint.weights_only", "true"}}) == expected));
  // An imported checkpoint is of step 0, whose moments are zero, so that it can be gone on from.
  BOOST_TEST(
      (trained(place, "resumed", {{"checkpoint.resume", '"' + imported + '"'}}) == expected));

  // Errors name the options that the user gave.
  const Finished missing = troupe({"launch", "--from", exported, "--data", path("nothing-*.txt")});
  BOOST_TEST(missing.err.starts_with("troupe: --data " + path("nothing-*.txt") + ": "),
             missing.err);
  std::vector<std::string> command{"launch", "--from", exported, "--data", path("corpus.txt")};
  const Keys keys{{"run.dir", path("runs/plain")}, {"run.max_steps", "6"},
                  {"batch.seq_len", "16"},         {"batch.micro", "2"},
                  {"batch.global", "16"},          {"optimizer.warmup_steps", "3"},
                  {"checkpoint.interval", "0"}};
  for (const auto& [key, value] : keys) {
    command.push_back("--set");
    command.push_back(key + "=" + value);
  }
  done(command);
  BOOST_TEST((step_numbers(path("runs/plain")) == expected));
  done({"launch", path("runs/plain/manifest.toml"), "--set", "run.dir=" + path("runs/again")});
  BOOST_TEST((step_numbers(path("runs/again")) == expected));
}

BOOST_FIXTURE_TEST_CASE(checkpoints_keep_what_the_model_came_with, Model) {
  json config = json::parse(content_of(exported + "/config.json"));
  config["my_note"] = "x";
  config["torch_dtype"] = "bfloat16";
  write_file(exported + "/config.json", config.dump());
  from("kept", exported, {{"run.max_steps", "1"}, {"optimizer.warmup_steps", "0"}});
  const std::string kept = place.checkpoint("kept", 1);
  BOOST_TEST(content_of(kept + "/generation_config.json") == R"({"eos_token_id": 7})");
  config["torch_dtype"] = "float32";
  BOOST_TEST(json::parse(content_of(kept + "/config.json")) == config);
  const json told =
      json::parse(done({"export", kept, path("out"), "--dtype", "bfloat16", "--json"}).out);
  BOOST_TEST(told.at("directory") == path("out"));
  BOOST_TEST(std::ranges::count(told.at("files"), json("generation_config.json")) == 1);
  config["torch_dtype"] = "bfloat16";
  BOOST_TEST(json::parse(content_of(path("out/config.json"))) == config);
  BOOST_TEST(fs::exists(path("out/generation_config.json")));
  // A run that is resumed goes on keeping it.
  done({"launch", "--resume", place.run("kept"), "--set", "run.max_steps=2"});
  BOOST_TEST(fs::exists(place.checkpoint("kept", 2) + "/generation_config.json"));
}

BOOST_FIXTURE_TEST_CASE(commands_take_a_model_as_they_take_a_checkpoint, Model) {
  const auto evaluated = [&](const std::string& model, const std::string& seq_len) {
    return json::parse(done({"eval", model, "--files", path("corpus.txt"), "--steps", "2",
                             "--seq-len", seq_len, "--json", "--threads", "1"})
                           .out);
  };
  const json loss = evaluated(checkpoint, "16");
  BOOST_TEST(evaluated(exported, "16") == loss);
  BOOST_TEST(loss["tokens"] == 2 * 8 * 16);
  const double bits = loss["loss"].get<double>() / std::log(2.0);  // a byte is a token
  BOOST_TEST(std::abs(loss["bits_per_byte"].get<double>() / bits - 1) < 1e-12);
  BOOST_TEST(evaluated(exported, "8")["tokens"] == 2 * 8 * 8);

  const std::string ids = place.dir.write("ids.jsonl", "[1, 2, 3]\n[255]\n[9, 8]\n");
  for (const auto& [model, out] : {std::pair(checkpoint, "a"), std::pair(exported, "b")})
    done({"logits", model, "--ids", ids, "-o", path(out), "--threads", "1"});
  BOOST_TEST(content_of(path("a")) == content_of(path("b")));
  BOOST_TEST(content_of(path("a")).find(R"("logits.2":{"dtype":"F32","shape":[2,256])") !=
             std::string::npos);
  const auto plan = json::parse(
      done({"plan", place.manifest("plan", {{"model.from", '"' + exported + '"'}}), "--json"}).out);
  const auto first = json::parse(done({"plan", place.manifest("fresh"), "--json"}).out);
  BOOST_TEST(plan["parameters"] == first["parameters"]);
}

BOOST_FIXTURE_TEST_CASE(what_is_refused_leaves_nothing, Model) {
  refused(65, {"exists"}, {"import", exported, checkpoint});
  refused(65, {"exists"}, {"export", checkpoint, exported});
  refused(78, {"model.hidden_size", "64", "32"},
          {"plan", place.manifest("wide", {{"model.from", '"' + exported + '"'},
                                           {"model.hidden_size", "64"}})});
  const std::string ids = place.dir.write("ids.jsonl", "[1]\n[256]\n");
  refused(65, {"ids.jsonl:2", "256"}, {"logits", exported, "--ids", ids, "-o", path("never")});
  place.dir.write("ids.jsonl", "[1]\n{}\n");
  refused(65, {"ids.jsonl:2", "list"}, {"logits", exported, "--ids", ids, "-o", path("never")});
  fs::remove(exported + "/config.json");
  refused(65, {"config.json"}, {"import", exported, path("never")});
  refused(65, {"config.json"}, {"eval", exported, "--files", path("corpus.txt")});
  for (const auto& entry : fs::directory_iterator(place.dir.path()))
    BOOST_TEST(entry.path().filename().string().find("never") == std::string::npos);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test
