#include "launch/manifest/resolve/model_source.h"

#include <boost/test/unit_test.hpp>

#include "launch/manifest/resolve/run_spec.h"
#include "tests/launch/manifest_text.h"
#include "tests/support/expect_error.h"
#include "tests/support/hf_files.h"

// model.from: what a manifest takes from a model's directory.

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(model_source_test)

namespace {

using launch::Manifest;

/// The model of llama_json().
const stages::ModelConfig kShape{.hidden_size = 8,
                                 .intermediate_size = 12,
                                 .num_hidden_layers = 3,
                                 .num_attention_heads = 2,
                                 .num_key_value_heads = 1,
                                 .head_dim = 4,
                                 .vocab_size = 16};

struct Source {
  TempDir dir;

  /// A manifest that says nothing of the model but where it is, and `model` in TOML.
  std::string manifest(const nlohmann::json& config, const std::string& model = "") const {
    write_model(dir / "model", config, tensors_of(kShape));
    return "[run]\nname = \"r\"\n[model]\nfrom = \"" + (dir / "model").string() + "\"\n" + model +
           "[data]\nfiles = [\"/corpus/text.txt\"]\n[batch]\nseq_len = 32\n";
  }
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(model_source, Source)

BOOST_AUTO_TEST_CASE(shape_weights_and_tokenizer_come_from_there) {
  nlohmann::json config = llama_json();
  config["dtype"] = "bfloat16";
  config["rope_scaling"] = {{"type", "yarn"}, {"factor", 4.0}, {"beta_fast", 16.0}};
  const Manifest m = checked(manifest(config));
  const actors::RunSpec spec = launch::to_run_spec(m);
  BOOST_TEST(spec.model.hidden_size == 8);
  BOOST_TEST(spec.model.num_key_value_heads == 1);
  BOOST_TEST(spec.model.max_position_embeddings == 64);
  BOOST_TEST(spec.model.initializer_range == 0.08);
  BOOST_TEST((spec.model.rotary.type == tensor::RotaryType::yarn));
  BOOST_TEST(spec.model.rotary.factor == 4.0);
  BOOST_TEST(spec.model.rotary.beta_fast == 16.0);
  BOOST_TEST(spec.model.rotary.original_max_position_embeddings == 64);
  BOOST_TEST((spec.model.dtype == tensor::DType::f32));
  BOOST_TEST(spec.checkpoint.resume == (dir / "model").string());
  BOOST_TEST(spec.checkpoint.weights_only);
  BOOST_TEST(spec.data.tokenizer == "bytes");
  // The resolved manifest says everything itself, and may be launched again.
  const Manifest again = checked(m.to_toml());
  BOOST_TEST((launch::to_run_spec(again).model == spec.model));
  BOOST_TEST((launch::parse_resolved(m.to_toml()).model == spec.model));
  write_file(dir / "model/tokenizer.json", "{}");
  BOOST_TEST(checked(manifest(config))->data.tokenizer == (dir / "model/tokenizer.json").string());
}

BOOST_AUTO_TEST_CASE(a_key_that_contradicts_is_refused_with_both_values) {
  const auto refused = [&](const std::string& key, const std::vector<std::string>& words) {
    const std::string text = manifest(llama_json(), key + "\n");
    expect_error(ErrorKind::manifest, words, [&] { checked(text); });
  };
  refused("hidden_size = 128", {"m.toml:5:", "model.hidden_size", "128", "8"});
  refused("rope_theta = 5000.0", {"model.rope_theta", "5000", "10000"});
  refused("rope_type = \"linear\"\nrope_factor = 2.0", {"model.rope_type", "linear", "default"});
  refused("kind = \"gpt2\"", {"model.kind", "gpt2", "llama"});
  refused("tie_word_embeddings = true", {"model.tie_word_embeddings", "true", "false"});
  BOOST_CHECK_NO_THROW(checked(manifest(llama_json(), "hidden_size = 8\n")));
}

BOOST_AUTO_TEST_CASE(a_run_chooses_dtype_and_dropout) {
  nlohmann::json config = llama_json();
  config["attention_dropout"] = 0.25;
  BOOST_TEST(checked(manifest(config))->model.attention_dropout == 0.25);
  const Manifest m = checked(manifest(config, "attention_dropout = 0.0\ndtype = \"bfloat16\"\n"));
  BOOST_TEST(m->model.attention_dropout == 0.0);
  BOOST_TEST(m.text(m->model.dtype) == "bfloat16");
}

BOOST_AUTO_TEST_CASE(a_directory_that_is_no_model_is_refused) {
  const std::string text = manifest(llama_json());
  std::filesystem::remove(dir / "model/config.json");
  expect_error(ErrorKind::data, {"m.toml:4:", "config.json"}, [&] { checked(text); });
  std::filesystem::remove_all(dir / "model");
  expect_error(ErrorKind::data, {"m.toml:4:", "no such directory"}, [&] { checked(text); });
}

BOOST_AUTO_TEST_CASE(a_value_head_is_not_trained) {
  nlohmann::json config = llama_json();
  config["architectures"] = {"LlamaForTokenClassification"};
  config["num_labels"] = 1;
  const std::string text = manifest(config);
  stages::ModelConfig shape = kShape;
  shape.value_head = true;
  write_model(dir / "model", config, tensors_of(shape));
  expect_error(ErrorKind::data, {"m.toml:4:", "LlamaForTokenClassification", "not trained"},
               [&] { checked(text); });
}

BOOST_AUTO_TEST_CASE(more_tokens_than_bytes_need_a_tokenizer) {
  nlohmann::json config = llama_json();
  stages::ModelConfig shape = kShape;
  const auto manifest_of = [&](std::int64_t tokens, const std::string& tokenizer) {
    config["vocab_size"] = shape.vocab_size = tokens;
    write_model(dir / "model", config, tensors_of(shape));
    return "[run]\nname = \"r\"\n[model]\nfrom = \"" + (dir / "model").string() +
           "\"\n[data]\nfiles = [\"/corpus/text.txt\"]\n" + tokenizer + "[batch]\nseq_len = 32\n";
  };
  BOOST_TEST(checked(manifest_of(256, ""))->data.tokenizer == "bytes");
  expect_error(ErrorKind::data, {"257 tokens", "no tokenizer", "data.tokenizer"},
               [&] { checked(manifest_of(257, "")); });
  BOOST_TEST(checked(manifest_of(257, "tokenizer = \"bytes\"\n"))->data.tokenizer == "bytes");
  write_file(dir / "model" / "tekken.json", "{}");
  BOOST_TEST(checked(manifest_of(257, ""))->data.tokenizer ==
             (dir / "model" / "tekken.json").string());
}

BOOST_AUTO_TEST_CASE(a_resumed_checkpoint_comes_before_the_model) {
  const std::string text =
      manifest(llama_json()) + "[checkpoint]\nresume = \"/runs/other/checkpoints/step-5\"\n";
  const actors::RunSpec spec = launch::to_run_spec(checked(text));
  BOOST_TEST(spec.checkpoint.resume == "/runs/other/checkpoints/step-5");
  BOOST_TEST(!spec.checkpoint.weights_only);
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test
