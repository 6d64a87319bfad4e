#include "stages/files/checkpoint/checkpoint.h"

#include <boost/test/unit_test.hpp>
#include <nlohmann/json.hpp>

#include "stages/files/hugging_face/hf_config.h"
#include "tests/support/checkpoint_files.h"
#include "tests/support/expect_error.h"
#include "tests/support/file_size_limit.h"
#include "tests/support/sentencepiece_model.h"
#include "tests/support/temp_dir.h"

BOOST_AUTO_TEST_SUITE(checkpoint_test)

using namespace troupe;
using namespace troupe::stages;
using nlohmann::json;
using test::Cuts;
using test::expect_error;
using test::FakeStage;
using test::small_info;
using test::write_checkpoint;

namespace fs = std::filesystem;

namespace {

json json_of(const fs::path& path) {
  return json::parse(test::content_of(path));
}

/// Loads the checkpoint into the stages of `cuts` and compares every tensor with what was written.
void check_load(const fs::path& checkpoint, const ModelConfig& model, const Cuts& cuts) {
  const auto reader = CheckpointReader::open(checkpoint);
  for (std::size_t i = 0; i + 1 < cuts.size(); ++i) {
    FakeStage loaded(model, cuts[i], cuts[i + 1]), expected(model, cuts[i], cuts[i + 1]);
    expected.fill();
    reader->load(loaded, /*weights_only=*/false);
    BOOST_TEST(loaded.times_changed() == 1);
    for (std::size_t p = 0; p < loaded.parameters().size(); ++p) {
      const Parameter &got = loaded.parameters()[p], &want = expected.parameters()[p];
      BOOST_TEST(test::same_bytes(got.weight, want.weight), got.name);
      BOOST_TEST(test::same_bytes(got.exp_avg, want.exp_avg), got.name);
      BOOST_TEST(test::same_bytes(got.exp_avg_sq, want.exp_avg_sq), got.name);
    }
  }
}

struct Fixture {
  test::TempDir dir;
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(checkpoint, Fixture)

BOOST_AUTO_TEST_CASE(any_pipeline_reads_what_any_pipeline_wrote) {
  for (const bool tied : {false, true}) {
    CheckpointInfo info = small_info();
    info.model.tie_word_embeddings = tied;
    for (const Cuts& written : {Cuts{0, 3}, Cuts{0, 1, 3}, Cuts{0, 1, 2, 3}}) {
      const test::TempDir run;
      const fs::path checkpoint = write_checkpoint(run.path(), info, written);
      for (const Cuts& read : {Cuts{0, 3}, Cuts{0, 2, 3}, Cuts{0, 1, 2, 3}})
        check_load(checkpoint, info.model, read);
    }
  }
}

BOOST_AUTO_TEST_CASE(what_it_says_of_the_run_is_read_back) {
  CheckpointInfo info = small_info(12);
  info.model.rms_norm_eps = 1.0 / 3e5;
  info.model.rotary.theta = 500000.1;
  info.model.initializer_range = 0.1;
  info.model.dtype = tensor::DType::bf16;
  const auto reader = CheckpointReader::open(write_checkpoint(dir.path(), info, {0, 2, 3}));
  BOOST_TEST(reader->info().step == 12);
  BOOST_TEST(reader->info().next_sample == 192);
  BOOST_TEST(reader->info().seq_len == 64);
  BOOST_TEST(reader->info().tokenizer == "bytes");
  BOOST_TEST(reader->tokenizer() == "bytes");
  BOOST_TEST((reader->info().model == info.model));
  BOOST_TEST(!reader->info().training.has_value());
  info.step = 13;
  info.training = {.seed = 7, .digest = "00ff", .shuffle = true, .global = 24, .lr = 0.1 / 3};
  const auto more = CheckpointReader::open(write_checkpoint(dir.path(), info, {0, 3}));
  BOOST_TEST((more->info().training == info.training));
  BOOST_CHECK_NO_THROW(reader->verify());
}

BOOST_AUTO_TEST_CASE(reading_tells_how_far_it_is) {
  const test::TempDir dir;
  const CheckpointInfo info = small_info(12);
  const auto reader = CheckpointReader::open(write_checkpoint(dir.path(), info, {0, 1, 3}));
  FakeStage stage(info.model, 0, 3);
  std::uint64_t floats = 0;
  for (const Parameter& parameter : stage.parameters())
    floats += static_cast<std::uint64_t>(parameter.weight.num_elements());
  std::uint64_t last = 0, calls = 0, expected = 0;
  const Progress progress = [&](std::uint64_t done, std::uint64_t total) {
    BOOST_TEST(done > last);
    BOOST_TEST(total == expected);
    last = done;
    ++calls;
  };
  const auto reads = [&](std::uint64_t bytes, const auto& read) {
    last = calls = 0;
    expected = bytes;
    read();
    BOOST_TEST(last == bytes);
    BOOST_TEST(calls > stage.parameters().size() / 2);
  };
  reads(3 * 4 * floats, [&] { reader->verify(progress); });
  reads(3 * 4 * floats, [&] { reader->load(stage, false, progress); });
  reads(4 * floats, [&] { reader->load(stage, true, progress); });
  reads(4 * floats, [&] { reader->load_weights(stage.parameters(), stage.device(), progress); });
}

BOOST_AUTO_TEST_CASE(several_threads_read_what_one_does) {
  const test::TempDir dir;
  const CheckpointInfo info = small_info(12);
  const auto path = write_checkpoint(dir.path(), info, {0, 1, 3});
  const auto reader = CheckpointReader::open(path);
  FakeStage one(info.model, 0, 3), several(info.model, 0, 3);
  std::uint64_t last = 0, all = 0;
  const Progress progress = [&](std::uint64_t done, std::uint64_t total) {
    last = done;
    all = total;
  };
  BOOST_CHECK_NO_THROW(reader->verify(progress, 3));
  BOOST_TEST(last == all);
  reader->load(one, /*weights_only=*/false);
  reader->load(several, /*weights_only=*/false, progress, 3);
  BOOST_TEST(last == all);
  for (std::size_t i = 0; i < one.parameters().size(); ++i) {
    const Parameter &a = one.parameters()[i], &b = several.parameters()[i];
    for (const auto member : {&Parameter::kept_weight, &Parameter::exp_avg, &Parameter::exp_avg_sq})
      BOOST_TEST(test::same_bytes(a.*member, b.*member), a.name);
  }
  // The exception of a report ends the work, whoever does it.
  const auto stop = [](std::uint64_t, std::uint64_t) { throw Error(ErrorKind::retry, "stop"); };
  test::expect_error(ErrorKind::retry, {"stop"}, [&] { reader->verify(stop, 3); });
  test::expect_error(ErrorKind::retry, {"stop"}, [&] { reader->load(several, true, stop, 3); });
}

BOOST_AUTO_TEST_CASE(rotary_embeddings_and_biases_are_read_back) {
  using tensor::RotaryType;
  for (const tensor::Rotary& rotary :
       {tensor::Rotary{.type = RotaryType::linear, .factor = 2.5},
        {.type = RotaryType::dynamic, .factor = 3, .original_max_position_embeddings = 32},
        {.type = RotaryType::yarn,
        .factor = 4,
        .original_max_position_embeddings = 16,
        .beta_fast = 20,
        .beta_slow = 2,
        .attention_factor = 1.5,
        .mscale = 0.5,
        .mscale_all_dim = 0.25,
        .truncate = false},
        {.type = RotaryType::llama3,
        .theta = 500000,
        .factor = 8,
        .original_max_position_embeddings = 16,
        .low_freq_factor = 2,
        .high_freq_factor = 5}})
    for (const bool biases : {false, true}) {
      CheckpointInfo info = small_info();
      info.model.rotary = rotary;
      info.model.max_position_embeddings = 32;
      info.model.attention_bias = biases;
      info.model.mlp_bias = !biases;
      const test::TempDir run;
      const fs::path checkpoint = write_checkpoint(run.path(), info, {0, 3});
      const auto reader = CheckpointReader::open(checkpoint);
      BOOST_TEST((reader->info().model == info.model), name_of(rotary.type));
      BOOST_CHECK_NO_THROW(reader->check_model(info.model));
      const json map = json_of(checkpoint / "model.safetensors.index.json")["weight_map"];
      BOOST_TEST(map.contains("model.layers.1.self_attn.k_proj.bias") == biases);
      BOOST_TEST(map.contains("model.layers.1.mlp.down_proj.bias") == !biases);
    }
}

BOOST_AUTO_TEST_CASE(it_is_a_hugging_face_directory) {
  const fs::path checkpoint = write_checkpoint(dir.path(), small_info(), {0, 1, 3});
  const json config = json_of(checkpoint / "config.json");
  BOOST_TEST(config["architectures"] == json({"LlamaForCausalLM"}));
  BOOST_TEST(config["model_type"] == "llama");
  BOOST_TEST(config["hidden_act"] == "silu");
  BOOST_TEST(config["hidden_size"] == 8);
  BOOST_TEST(config["head_dim"] == 4);
  BOOST_TEST(config["num_key_value_heads"] == 1);
  BOOST_TEST(config["max_position_embeddings"] == 2048);
  BOOST_TEST(config["torch_dtype"] == "float32");
  BOOST_TEST(config["rope_theta"] == 10000.0);
  BOOST_TEST(config["tie_word_embeddings"] == false);
  BOOST_TEST(config["bos_token_id"].is_null());
  const json index = json_of(checkpoint / "model.safetensors.index.json");
  std::int64_t total = 0;
  for (const ParameterInfo& parameter : parameters_of(test::small_model())) {
    total += 4 * parameter.shape.num_elements();
    const bool first = parameter.layer <= 0;
    BOOST_TEST(index["weight_map"][parameter.name] ==
               (first ? "model-00001-of-00002.safetensors" : "model-00002-of-00002.safetensors"));
  }
  BOOST_TEST(index["metadata"]["total_size"] == total);
  BOOST_TEST(index["weight_map"].size() == parameters_of(test::small_model()).size());
}

BOOST_AUTO_TEST_CASE(config_json_says_what_training_dropped) {
  ModelConfig model = small_info().model;
  model.hidden_dropout = 0.25;
  model.attention_dropout = 0.125;
  BOOST_TEST(json::parse(to_hf_config(model)).at("attention_dropout") == 0.125);
  model.kind = ModelKind::gpt2;
  const json gpt2 = json::parse(to_hf_config(model));
  BOOST_TEST(gpt2.at("embd_pdrop") == 0.25);
  BOOST_TEST(gpt2.at("resid_pdrop") == 0.25);
  BOOST_TEST(gpt2.at("attn_pdrop") == 0.125);
}

BOOST_AUTO_TEST_CASE(gpt2_is_a_hugging_face_directory) {
  CheckpointInfo info = small_info();
  info.model = {.kind = ModelKind::gpt2,
                .hidden_size = 8,
                .intermediate_size = 12,
                .num_hidden_layers = 3,
                .num_attention_heads = 2,
                .num_key_value_heads = 2,
                .head_dim = 4,
                .vocab_size = 16,
                .layer_norm_epsilon = 1.0 / 3e5,
                .max_position_embeddings = 70,
                .tie_word_embeddings = true};
  const fs::path checkpoint = write_checkpoint(dir.path(), info, {0, 1, 3});
  const json config = json_of(checkpoint / "config.json");
  BOOST_TEST(config["architectures"] == json({"GPT2LMHeadModel"}));
  BOOST_TEST(config["model_type"] == "gpt2");
  BOOST_TEST(config["activation_function"] == "gelu_new");
  BOOST_TEST(config["n_embd"] == 8);
  BOOST_TEST(config["n_inner"] == 12);
  BOOST_TEST(config["n_layer"] == 3);
  BOOST_TEST(config["n_head"] == 2);
  BOOST_TEST(config["n_positions"] == 70);
  BOOST_TEST(config["tie_word_embeddings"] == true);
  BOOST_TEST(!config.contains("rope_theta"));
  const json map = json_of(checkpoint / "model.safetensors.index.json")["weight_map"];
  BOOST_TEST(map.size() == 3 * 12 + 4);  // with wte, wpe and the final norm's two
  for (const char* name : {"transformer.wte.weight", "transformer.wpe.weight"})
    BOOST_TEST(map[name] == "model-00001-of-00002.safetensors");
  BOOST_TEST(map["transformer.h.2.attn.c_attn.bias"] == "model-00002-of-00002.safetensors");
  const auto reader = CheckpointReader::open(checkpoint);
  BOOST_TEST((reader->info().model == info.model));
  ModelConfig other = info.model;
  other.max_position_embeddings = 71;
  expect_error(ErrorKind::data, {"max_position_embeddings", "70", "71"},
               [&] { reader->check_model(other); });
  other = info.model;
  other.layer_norm_epsilon = 1e-5;
  expect_error(ErrorKind::data, {"layer_norm_epsilon"}, [&] { reader->check_model(other); });
  other = info.model;
  other.kind = ModelKind::llama;
  expect_error(ErrorKind::data, {"kind", "gpt2", "llama"}, [&] { reader->check_model(other); });
}

BOOST_AUTO_TEST_CASE(a_tied_head_is_written_once) {
  CheckpointInfo info = small_info();
  info.model.tie_word_embeddings = true;
  const fs::path checkpoint = write_checkpoint(dir.path(), info, {0, 1, 3});
  const json map = json_of(checkpoint / "model.safetensors.index.json")["weight_map"];
  BOOST_TEST(!map.contains("lm_head.weight"));
  BOOST_TEST(map["model.embed_tokens.weight"] == "model-00001-of-00002.safetensors");
}

BOOST_AUTO_TEST_CASE(a_sentencepiece_model_travels_with_it) {
  CheckpointInfo info = small_info();
  info.tokenizer = dir.write("tok.model", test::sentencepiece_model());
  const auto reader = CheckpointReader::open(write_checkpoint(dir / "checkpoints", info, {0, 3}));
  BOOST_TEST(reader->info().tokenizer == info.tokenizer);
  fs::remove(info.tokenizer);
  BOOST_TEST(test::content_of(reader->tokenizer()) == test::sentencepiece_model());
}

BOOST_AUTO_TEST_CASE(weights_alone_leave_the_optimizer_state) {
  const auto reader = CheckpointReader::open(write_checkpoint(dir.path(), small_info(), {0, 3}));
  FakeStage loaded(test::small_model(), 0, 3), expected(test::small_model(), 0, 3),
      empty(test::small_model(), 0, 3);
  expected.fill();
  reader->load(loaded, /*weights_only=*/true);
  for (std::size_t p = 0; p < loaded.parameters().size(); ++p) {
    BOOST_TEST(test::same_bytes(loaded.parameters()[p].weight, expected.parameters()[p].weight));
    BOOST_TEST(test::same_bytes(loaded.parameters()[p].exp_avg, empty.parameters()[p].exp_avg));
    BOOST_TEST(
        test::same_bytes(loaded.parameters()[p].exp_avg_sq, empty.parameters()[p].exp_avg_sq));
  }
}

BOOST_AUTO_TEST_CASE(the_first_field_that_differs_is_named_with_both_values) {
  const auto reader = CheckpointReader::open(write_checkpoint(dir.path(), small_info(), {0, 3}));
  const auto differs = [&](const std::string& field, const char* saved, const char* wanted,
                           auto change) {
    ModelConfig model = test::small_model();
    change(model);
    expect_error(ErrorKind::data, {"step-7", field, saved, wanted},
                 [&] { reader->check_model(model); });
  };
  differs("hidden_size", "8", "192", [](ModelConfig& m) { m.hidden_size = 192; });
  differs("hidden_size", "8", "192", [](ModelConfig& m) { m.hidden_size = 192, m.head_dim = 96; });
  differs("intermediate_size", "12", "13", [](ModelConfig& m) { m.intermediate_size = 13; });
  differs("num_hidden_layers", "3", "4", [](ModelConfig& m) { m.num_hidden_layers = 4; });
  differs("num_attention_heads", "2", "4", [](ModelConfig& m) { m.num_attention_heads = 4; });
  differs("num_key_value_heads", "1", "2", [](ModelConfig& m) { m.num_key_value_heads = 2; });
  differs("head_dim", "4", "8", [](ModelConfig& m) { m.head_dim = 8; });
  differs("vocab_size", "16", "256", [](ModelConfig& m) { m.vocab_size = 256; });
  differs("rms_norm_eps", "1e-05", "1e-06", [](ModelConfig& m) { m.rms_norm_eps = 1e-6; });
  differs("rope_type", "default", "yarn",
          [](ModelConfig& m) { m.rotary.type = tensor::RotaryType::yarn; });
  differs("attention_bias", "false", "true", [](ModelConfig& m) { m.attention_bias = true; });
  differs("mlp_bias", "false", "true", [](ModelConfig& m) { m.mlp_bias = true; });
  differs("rope_theta", "10000", "20000", [](ModelConfig& m) { m.rotary.theta = 20000; });
  differs("tie_word_embeddings", "false", "true",
          [](ModelConfig& m) { m.tie_word_embeddings = true; });
  ModelConfig same = test::small_model();
  same.dtype = tensor::DType::bf16;
  same.initializer_range = 1;
  BOOST_CHECK_NO_THROW(reader->check_model(same));
}

BOOST_AUTO_TEST_CASE(a_stage_of_another_model_is_refused) {
  const auto reader = CheckpointReader::open(write_checkpoint(dir.path(), small_info(), {0, 3}));
  ModelConfig wider = test::small_model(), deeper = test::small_model();
  wider.vocab_size = 32;
  deeper.num_hidden_layers = 4;
  FakeStage wide(wider, 0, 3), deep(deeper, 0, 4);
  expect_error(ErrorKind::data, {"checkpoint", "model.embed_tokens.weight", "[16, 8]", "[32, 8]"},
               [&] { reader->load(wide, true); });
  expect_error(ErrorKind::data, {"checkpoint", "model.layers.3.input_layernorm.weight", "missing"},
               [&] { reader->load(deep, true); });
  BOOST_TEST(deep.times_changed() == 0);
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE_END()
