#include <fmt/format.h>

#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstring>
#include <limits>
#include <set>

#include "stages/files/copies/hugging_face.h"
#include "stages/files/hugging_face/side_files.h"
#include "tests/support/checkpoint_files.h"
#include "tests/support/expect_error.h"
#include "tests/support/hf_files.h"

// Hugging Face directories read as they are, imported and exported.

BOOST_AUTO_TEST_SUITE(hf_copies_test)

using namespace troupe;
using namespace troupe::stages;
using nlohmann::json;
using test::content_of;
using test::expect_error;
using test::FakeStage;
using test::gpt2_json;
using test::llama_json;
using test::raw_tensors;
using test::RawTensor;
using test::RawTensors;
using test::write_model;
using test::write_sharded_model;

namespace fs = std::filesystem;

namespace {

constexpr const char* kQuery = "model.layers.2.self_attn.q_proj.weight";

struct Fixture {
  test::TempDir dir;

  /// The tensors of the model that a config.json describes.
  static RawTensors tensors_for(const json& config) {
    const bool is_gpt2 = config["model_type"] == "gpt2";
    const auto integer = [&](const char* name) { return config[name].get<std::int64_t>(); };
    ModelConfig model;
    if (is_gpt2)
      model = {.kind = ModelKind::gpt2,
               .hidden_size = integer("n_embd"),
               .intermediate_size = 4 * integer("n_embd"),
               .num_hidden_layers = integer("n_layer"),
               .num_attention_heads = integer("n_head"),
               .num_key_value_heads = integer("n_head"),
               .head_dim = integer("n_embd") / integer("n_head"),
               .vocab_size = integer("vocab_size"),
               .max_position_embeddings = integer("n_positions"),
               .tie_word_embeddings = true};
    else
      model = {.hidden_size = integer("hidden_size"),
               .intermediate_size = integer("intermediate_size"),
               .num_hidden_layers = integer("num_hidden_layers"),
               .num_attention_heads = integer("num_attention_heads"),
               .num_key_value_heads = integer("num_key_value_heads"),
               .head_dim = integer("head_dim"),
               .vocab_size = integer("vocab_size"),
               .attention_bias = config["attention_bias"],
               .mlp_bias = config["mlp_bias"],
               .tie_word_embeddings = config["tie_word_embeddings"]};
    return test::tensors_of(model);
  }
  fs::path plain() { return write_model(dir / "plain", llama_json(), tensors_for(llama_json())); }
  void refused(const fs::path& model, const std::vector<std::string>& words) {
    expect_error(ErrorKind::data, words, [&] { import_model(model, dir / "never"); });
    for (const auto& entry : fs::directory_iterator(dir.path()))
      BOOST_TEST(entry.path().filename().string().find("never") == std::string::npos);
  }
};

/// All tensors of a directory's weights.
RawTensors weights_in(const fs::path& dir) {
  RawTensors all;
  for (const auto& entry : fs::directory_iterator(dir)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with("model") || !name.ends_with(".safetensors")) continue;
    for (auto& [tensor, raw] : raw_tensors(entry.path())) all[tensor] = raw;
  }
  return all;
}

/// Whether stages that read the two directories hold the same bits, with any number of shards.
bool are_same(const fs::path& a, const fs::path& b, int shards = 1) {
  const auto left = CheckpointReader::open(a), right = CheckpointReader::open(b);
  const ModelConfig& model = left->info().model;
  const int layers = static_cast<int>(model.num_hidden_layers);
  for (int shard = 0; shard < shards; ++shard) {
    FakeStage x(model, 0, layers, {.size = shards, .shard = shard});
    FakeStage y(model, 0, layers, {.size = shards, .shard = shard});
    left->load(x, /*weights_only=*/false);
    right->load(y, /*weights_only=*/false);
    for (std::size_t i = 0; i < x.parameters().size(); ++i)
      if (!test::same_bytes(x.parameters()[i].weight, y.parameters()[i].weight)) return false;
  }
  return true;
}

}  // namespace

BOOST_FIXTURE_TEST_SUITE(hf_copies, Fixture)

BOOST_AUTO_TEST_CASE(a_directory_is_read_as_a_checkpoint) {
  const auto reader = CheckpointReader::open(plain());
  BOOST_TEST(reader->info().step == 0);
  BOOST_TEST(reader->info().next_sample == 0);
  BOOST_TEST(reader->info().seq_len == 64);
  BOOST_TEST(reader->tokenizer() == "bytes");
  BOOST_CHECK_NO_THROW(reader->verify());
  FakeStage stage(reader->info().model, 1, 3), untouched(reader->info().model, 1, 3);
  stage.fill();
  untouched.fill();
  reader->load(stage, /*weights_only=*/false);
  const RawTensors tensors = tensors_for(llama_json());
  for (std::size_t i = 0; i < stage.parameters().size(); ++i) {
    const Parameter& parameter = stage.parameters()[i];
    const std::string& bytes = tensors.at(parameter.name).bytes;
    BOOST_REQUIRE(parameter.weight.num_bytes() == bytes.size());
    BOOST_TEST(std::memcmp(test::opened(parameter.weight.data), bytes.data(), bytes.size()) == 0,
               parameter.name);
    BOOST_TEST(test::same_bytes(parameter.exp_avg, untouched.parameters()[i].exp_avg));
  }
}

BOOST_AUTO_TEST_CASE(import_and_export_keep_every_bit) {
  json biased = llama_json();
  biased["attention_bias"] = biased["mlp_bias"] = biased["tie_word_embeddings"] = true;
  biased["my_note"] = {1, 2};
  for (const json& config : {llama_json(), biased, gpt2_json()}) {
    const test::TempDir place;
    RawTensors tensors = tensors_for(config);
    RawTensor& first = tensors.begin()->second;
    first = test::as_bfloat16(first);  // dtypes may differ by tensor
    for (const bool sharded : {false, true}) {
      const fs::path from = place / (sharded ? "sharded" : "one");
      sharded ? write_sharded_model(from, config, tensors) : write_model(from, config, tensors);
      test::write_file(from / "generation_config.json", R"({"eos_token_id": 2})");
      test::write_file(from / "chat_template.jinja", "{{ messages }}");
      test::write_file(from / "LICENSE", "free");
      test::write_file(from / "pytorch_model.bin", "pickle");
      const fs::path checkpoint = from.string() + "-in", out = from.string() + "-out";
      const ModelCopy in = import_model(from, checkpoint);
      BOOST_TEST(in.files == (std::vector<std::string>{"LICENSE", "chat_template.jinja",
                                                       "generation_config.json"}));
      BOOST_TEST(in.unused_fields == (config.contains("my_note")
                                          ? std::vector<std::string>{"my_note"}
                                          : std::vector<std::string>{}));
      BOOST_TEST(fs::exists(checkpoint / "state.json"));
      BOOST_CHECK_NO_THROW(CheckpointReader::open(checkpoint)->verify());
      BOOST_TEST(are_same(from, checkpoint, 1));
      BOOST_TEST(are_same(from, checkpoint, 2));
      export_model(checkpoint, out, std::nullopt);
      BOOST_TEST((weights_in(out) == tensors));
      for (const char* name : {"config.json", "generation_config.json", "LICENSE"})
        BOOST_TEST(content_of(out / name) == content_of(from / name));
      BOOST_TEST(fs::exists(out / "model.safetensors") == !sharded);
      BOOST_TEST(fs::exists(out / "model.safetensors.index.json") == sharded);
      BOOST_TEST(!fs::exists(out / "pytorch_model.bin"));
      BOOST_TEST(!fs::exists(out / "state.json"));
    }
  }
}

BOOST_AUTO_TEST_CASE(export_rounds_when_asked) {
  const fs::path from = plain();
  export_model(from, dir / "half", WeightDType::bf16);
  RawTensors expected = tensors_for(llama_json());
  for (auto& [name, tensor] : expected) tensor = test::as_bfloat16(tensor);
  BOOST_TEST((weights_in(dir / "half") == expected));
  BOOST_TEST(json::parse(content_of(dir / "half" / "config.json"))["dtype"] == "bfloat16");
  export_model(dir / "half", dir / "wide", WeightDType::f32);
  BOOST_TEST((weights_in(dir / "wide") == tensors_for(llama_json())));
}

BOOST_AUTO_TEST_CASE(a_weight_that_is_no_finite_number_is_named) {
  constexpr const char* kDown = "model.layers.1.mlp.down_proj.weight";
  const std::string columns = std::to_string(llama_json()["intermediate_size"].get<int>());
  for (const float value : {std::numeric_limits<float>::quiet_NaN(), -INFINITY}) {
    for (const bool half : {false, true}) {
      const fs::path from = dir / fmt::format("{}-{}", value, half);
      RawTensors tensors = tensors_for(llama_json());
      RawTensor& down = tensors.at(kDown);
      const std::size_t second_row = std::stoul(columns) + 3;  // its fourth element
      std::memcpy(down.bytes.data() + second_row * sizeof value, &value, sizeof value);
      if (half) down = test::as_bfloat16(down);
      write_model(from, llama_json(), tensors);
      const std::vector<std::string> words{"model.safetensors", kDown, fmt::format("{}", value),
                                           "[1, 3]"};
      const auto reader = CheckpointReader::open(from);
      FakeStage stage(reader->info().model, 1, 3);
      test::expect_error(ErrorKind::data, words, [&] { reader->load(stage, true); });
      test::expect_error(ErrorKind::data, words, [&] { import_model(from, dir / "in"); });
      BOOST_TEST(!fs::exists(dir / "in"));
    }
  }
}

BOOST_AUTO_TEST_CASE(what_a_type_cannot_hold_is_not_exported) {
  constexpr const char* kDown = "model.layers.1.mlp.down_proj.weight";
  for (const auto& [dtype, value, largest] : {std::tuple{WeightDType::f16, 70'000.0f, "65504"},
                                              {WeightDType::bf16, 3.4e38f, "3.38953"}}) {
    RawTensors tensors = tensors_for(llama_json());
    std::memcpy(tensors.at(kDown).bytes.data(), &value, sizeof value);
    const fs::path from = dir / std::string(name_of(dtype));
    write_model(from, llama_json(), tensors);
    test::expect_error(ErrorKind::data,
                       {kDown, fmt::format("{}", value), "[0, 0]", name_of(dtype).data(), largest},
                       [&, wanted = dtype] { export_model(from, dir / "out", wanted); });
    BOOST_TEST(!fs::exists(dir / "out"));
    export_model(from, from.string() + "-wide", WeightDType::f32);
  }
}

BOOST_AUTO_TEST_CASE(nothing_is_replaced) {
  const fs::path from = plain();
  fs::create_directory(dir / "there");
  expect_error(ErrorKind::data, {"there", "exists"}, [&] { import_model(from, dir / "there"); });
  expect_error(ErrorKind::data, {"there", "exists"},
               [&] { export_model(from, dir / "there/", std::nullopt); });
  BOOST_CHECK_NO_THROW(import_model(from, dir / "new" / "folders" / ""));
  BOOST_TEST(fs::exists(dir / "new/folders/state.json"));
}

BOOST_AUTO_TEST_CASE(a_stopped_copy_leaves_nothing) {
  std::stop_source stop;
  stop.request_stop();
  const fs::path from = plain();
  expect_error(ErrorKind::retry, {"stopped"},
               [&] { import_model(from, dir / "never", stop.get_token()); });
  BOOST_TEST(std::distance(fs::directory_iterator(dir.path()), {}) == 1);
}

BOOST_AUTO_TEST_CASE(damage_after_the_import_is_noticed) {
  import_model(plain(), dir / "in");
  const fs::path weights = dir / "in/model-00001-of-00001.safetensors";
  std::string bytes = content_of(weights);
  bytes.back() ^= 1;
  test::write_file(weights, bytes);
  const auto reader = CheckpointReader::open(dir / "in");
  expect_error(ErrorKind::data, {"damaged"}, [&] { reader->verify(); });
}

BOOST_AUTO_TEST_CASE(names_without_prefix_and_constants_are_understood) {
  const fs::path expected = write_model(dir / "gpt2", gpt2_json(), tensors_for(gpt2_json()));
  RawTensors old;
  for (const auto& [name, tensor] : tensors_for(gpt2_json()))
    old[name.substr(std::string("transformer.").size())] = tensor;
  old["h.0.attn.bias"] = {"U8", {1, 1, 2, 2}, std::string(4, 1)};
  old["h.1.attn.masked_bias"] = {"F32", {}, std::string(4, 0)};
  old["lm_head.weight"] = old["wte.weight"];
  const fs::path from = write_model(dir / "old", gpt2_json(), old);
  const ModelCopy copy = import_model(from, dir / "old-in");
  BOOST_TEST(copy.left_out ==
             (std::vector<std::string>{"h.0.attn.bias", "h.1.attn.masked_bias", "lm_head.weight"}));
  BOOST_TEST(are_same(expected, from));
  export_model(dir / "old-in", dir / "old-out", std::nullopt);
  BOOST_TEST((weights_in(dir / "old-out") == tensors_for(gpt2_json())));

  RawTensors twice = tensors_for(gpt2_json());
  twice["wte.weight"] = twice["transformer.wte.weight"];
  refused(write_model(dir / "twice", gpt2_json(), twice), {"wte.weight", "both"});
  old["lm_head.weight"].bytes[5] ^= 1;
  refused(write_model(dir / "untied", gpt2_json(), old), {"lm_head.weight", "tie_word_embeddings"});
  RawTensors llama = tensors_for(llama_json());
  llama["model.layers.0.self_attn.rotary_emb.inv_freq"] = {"F32", {2}, std::string(8, 0)};
  BOOST_TEST(import_model(write_model(dir / "llama", llama_json(), llama), dir / "llama-in")
                 .left_out.size() == 1u);
}

BOOST_AUTO_TEST_CASE(tensors_that_do_not_fit_are_named) {
  const auto with = [&](const std::string& name, std::optional<RawTensor> tensor) {
    RawTensors tensors = tensors_for(llama_json());
    tensors.erase(name);
    if (tensor) tensors[name] = *tensor;
    return write_model(dir / "bad", llama_json(), tensors);
  };
  refused(with(kQuery, std::nullopt), {kQuery, "missing"});
  refused(with("model.layers.3.mlp.up_proj.weight", RawTensor{"F32", {1}, "1234"}),
          {"model.layers.3.mlp.up_proj.weight", "no part"});
  refused(with(kQuery, RawTensor{"F32", {7, 8}, std::string(224, 0)}),
          {kQuery, "[7, 8]", "[8, 8]"});
  refused(with(kQuery, RawTensor{"I32", {8, 8}, std::string(256, 0)}), {kQuery, "I32"});
  refused(with(kQuery, RawTensor{"F64", {8, 8}, std::string(512, 0)}), {kQuery, "F64"});
}

BOOST_AUTO_TEST_CASE(an_index_must_agree_with_its_files) {
  const fs::path from = dir / "sharded", index = from / "model.safetensors.index.json";
  const auto again = [&](const auto& change) {
    fs::remove_all(from);
    write_sharded_model(from, llama_json(), tensors_for(llama_json()));
    json content = json::parse(content_of(index));
    change(content["weight_map"]);
    test::write_file(index, content.dump());
  };
  again([](json&) {});
  BOOST_TEST(are_same(from, plain()));
  fs::remove(from / "model-00002-of-00002.safetensors");
  refused(from, {"model-00002-of-00002.safetensors"});
  again([](json& map) {
    const bool first = map[kQuery] == "model-00001-of-00002.safetensors";
    map[kQuery] = first ? "model-00002-of-00002.safetensors" : "model-00001-of-00002.safetensors";
  });
  refused(from, {"index.json", kQuery});
  again([](json& map) { map.erase(kQuery); });
  refused(from, {"index.json", kQuery});
  again([](json& map) { map["model.extra"] = "model-00001-of-00002.safetensors"; });
  refused(from, {"index.json", "model.extra"});
  for (const json& file : {json("../plain/model.safetensors"), json("/etc/passwd"), json(7)}) {
    again([&](json& map) { map[kQuery] = file; });
    refused(from, {"index.json", kQuery, file.dump()});
  }
  again([](json& map) { map = 3; });
  refused(from, {"index.json", "weight_map"});
}

BOOST_AUTO_TEST_CASE(a_directory_that_is_no_model_is_refused) {
  refused(dir / "nowhere", {"nowhere", "no such directory"});
  fs::path from = plain();
  fs::remove(from / "config.json");
  refused(from, {"config.json"});
  from = plain();
  fs::rename(from / "model.safetensors", from / "model.bin");
  refused(from, {"model.safetensors", "model.bin"});
  // A checkpoint that lost its last file is not taken for a model.
  const fs::path torn = test::write_checkpoint(dir.path(), test::small_info(), {0, 3});
  fs::remove(torn / "state.json");
  refused(torn, {"state.json is missing"});
}

BOOST_AUTO_TEST_CASE(a_run_keeps_what_its_model_came_with) {
  const fs::path from = plain();
  test::write_file(from / "generation_config.json", "{}");
  test::write_file(from / "tokenizer_config.json", R"({"of": "the source"})");
  const auto reader = CheckpointReader::open(from);
  ModelSource source = reader->source();
  BOOST_TEST(source.config == content_of(from / "config.json"));
  BOOST_TEST(source.files.size() == 2u);

  // The source has no tokenizer.json, so that of the bytes takes its place.
  auto files = side_files(source, "bytes");
  BOOST_TEST(files.contains("tokenizer.json"));
  BOOST_TEST(files.at("generation_config.json") == "{}");
  BOOST_TEST(files.at("tokenizer_config.json") != source.files.at("tokenizer_config.json"));
  // A tokenizer that the source has comes with everything beside it.
  ModelSource own = source;
  own.files["tokenizer.json"] = files.at("tokenizer.json");
  BOOST_TEST((side_files(own, "bytes") == own.files));

  CheckpointInfo info = test::small_info();
  info.model = reader->info().model;
  const fs::path unfinished = unfinished_checkpoint(dir.path(), info.step);
  FakeStage stage(info.model, 0, 3);
  stage.fill();
  write_checkpoint_part(unfinished, stage, info.model, {});
  source.files = files;
  finish_checkpoint(unfinished, info, 1, source);
  const fs::path checkpoint = dir / "step-7";
  BOOST_TEST(json::parse(content_of(checkpoint / "config.json")) == llama_json());
  BOOST_TEST(content_of(checkpoint / "generation_config.json") == "{}");
  BOOST_TEST((CheckpointReader::open(checkpoint)->source().files == files));
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE_END()
