#include "tests/support/adapter_files.h"

#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstring>
#include <utility>

#include "stages/files/checkpoint/checkpoint.h"
#include "stages/files/checkpoint/end_tokens.h"
#include "stages/files/copies/hugging_face.h"
#include "tests/support/expect_error.h"
#include "tests/support/hf_files.h"

// Directories of PEFT, read, merged, and refused.

BOOST_AUTO_TEST_SUITE(adapter_files_test)

using namespace troupe;
using namespace troupe::stages;
using nlohmann::json;
using test::content_of;
using test::expect_error;
using test::FakeStage;
using test::floats_of;
using test::gpt2_json;
using test::llama_json;
using test::raw_tensors;
using test::RawTensor;
using test::RawTensors;
using test::Targets;
using test::write_file;
using test::write_model;

namespace fs = std::filesystem;

namespace {

double largest_difference(const std::vector<float>& got, const std::vector<double>& exact) {
  double largest = 0;
  for (std::size_t i = 0; i < exact.size(); ++i)
    largest = std::max(largest, std::abs(static_cast<double>(got[i]) - exact[i]));
  return got.size() == exact.size() ? largest : INFINITY;
}

}  // namespace

BOOST_FIXTURE_TEST_SUITE(adapter_files, test::AdapterFiles)

BOOST_AUTO_TEST_CASE(a_directory_of_peft_is_read_with_its_base) {
  const auto reader = CheckpointReader::open(peft(llama_json(), {"v_proj", "q_proj"}));
  const CheckpointInfo& info = reader->info();
  BOOST_TEST(info.step == 0);
  BOOST_TEST(info.seq_len == 64);
  BOOST_TEST(!info.model.adapter.has_value());
  BOOST_TEST(info.model.hidden_size == 8);
  BOOST_REQUIRE(info.adapter.has_value());
  BOOST_TEST(info.adapter->rank == 2);
  BOOST_TEST(info.adapter->alpha == 6);
  BOOST_TEST(info.adapter->dropout == 0.25);
  BOOST_TEST((info.adapter->targets == Targets{"q_proj", "v_proj"}));
  BOOST_TEST(info.adapter->base == (dir / "base").string());
  // A stage with the adapter has both as they lie in the files.
  FakeStage stage(info.trained_model(), 0, 3);
  reader->load(stage, true);
  const RawTensors tensors = raw_tensors(dir / "peft/adapter_model.safetensors");
  const RawTensors base = raw_tensors(dir / "base/model.safetensors");
  for (const Parameter& parameter : stage.parameters()) {
    const bool is_of_adapter = tensors.contains(parameter.name);
    const RawTensor& raw = (is_of_adapter ? tensors : base).at(parameter.name);
    const auto* w = test::opened(parameter.weight).as<float>();
    BOOST_TEST((floats_of(raw) == std::vector(w, w + parameter.weight.num_elements())),
               parameter.name);
  }
}

BOOST_AUTO_TEST_CASE(a_stage_without_adapter_gets_both_merged) {
  for (const json& config : {llama_json(), gpt2_json()})
    for (const bool rslora : {false, true}) {
      fs::remove_all(dir / "base");
      const bool is_gpt2 = config["model_type"] == "gpt2";
      const Targets targets =
          is_gpt2 ? Targets{"c_attn", "c_proj"} : Targets{"down_proj", "k_proj", "up_proj"};
      const auto reader = CheckpointReader::open(peft(config, targets, {{"use_rslora", rslora}}));
      const auto expected = merged(targets, 6 / (rslora ? std::sqrt(2.0) : 2.0));
      for (int shard = 0; shard < 2; ++shard) {
        const Sharding sharding{.size = 2, .shard = shard};
        FakeStage stage(model, 0, static_cast<int>(model.num_hidden_layers), sharding);
        reader->load(stage, true);
        for (const Parameter& parameter : stage.parameters()) {
          const ParameterInfo info = parameters_by_name(model).at(parameter.name);
          const std::vector<double>& whole = expected.at(info.stored.tensor);
          const auto columns =
              static_cast<std::size_t>(tensor::whole(stored_tensor(info).shape).columns);
          std::vector<double> own;
          for (std::int64_t i = 0; i < parameter.region.rows; ++i)
            for (std::int64_t j = 0; j < parameter.region.columns; ++j) {
              const tensor::Region at = stored_regions(
                  info, {parameter.region.row + i, 1, parameter.region.column + j, 1})[0];
              own.push_back(whole[static_cast<std::size_t>(at.row) * columns +
                                  static_cast<std::size_t>(at.column)]);
            }
          const auto* w = test::opened(parameter.weight).as<float>();
          BOOST_TEST(largest_difference({w, w + own.size()}, own) < 1e-5, parameter.name);
        }
      }
    }
}

BOOST_AUTO_TEST_CASE(export_merges_and_changes_the_targets_alone) {
  for (const json& config : {llama_json(), gpt2_json()}) {
    fs::remove_all(dir / "base");
    fs::remove_all(dir / "out");
    const Targets targets =
        config["model_type"] == "gpt2" ? Targets{"c_attn", "c_fc"} : Targets{"o_proj", "q_proj"};
    export_model(peft(config, targets), dir / "out", std::nullopt);
    const auto expected = merged(targets, 3);
    const RawTensors was = raw_tensors(dir / "base/model.safetensors");
    const RawTensors out = raw_tensors(dir / "out/model.safetensors");
    BOOST_TEST(out.size() == was.size());
    for (const auto& [name, raw] : out) {
      BOOST_TEST(largest_difference(floats_of(raw), expected.at(name)) < 1e-5, name);
      const bool is_target = std::ranges::any_of(targets, [&](const std::string& target) {
        return name.find("." + target + ".weight") != std::string::npos;
      });
      BOOST_TEST((raw == was.at(name)) == !is_target, name);
    }
    BOOST_TEST(!fs::exists(dir / "out/adapter_config.json"));
    BOOST_TEST(json::parse(content_of(dir / "out/config.json")) == config);
  }
}

BOOST_AUTO_TEST_CASE(a_merged_weight_is_rounded_once_to_the_type_of_the_base) {
  peft(llama_json(), {"q_proj"});
  RawTensors half;
  for (const auto& [name, raw] : raw_tensors(dir / "base/model.safetensors"))
    half[name] = test::as_bfloat16(raw);
  write_model(dir / "base", llama_json(), half);
  export_model(dir / "peft", dir / "out", std::nullopt);
  const auto expected = merged({"q_proj"}, 3);
  for (const auto& [name, raw] : raw_tensors(dir / "out/model.safetensors")) {
    BOOST_TEST(raw.dtype == "BF16");
    const std::vector<double>& exact = expected.at(name);
    for (std::size_t i = 0; i < exact.size(); ++i) {
      std::uint32_t bits = 0;
      std::memcpy(reinterpret_cast<char*>(&bits) + 2, raw.bytes.data() + 2 * i, 2);
      float got = 0;
      std::memcpy(&got, &bits, sizeof got);
      BOOST_TEST(std::abs(static_cast<double>(got) - exact[i]) <= std::abs(exact[i]) / 255, name);
    }
  }
}

BOOST_AUTO_TEST_CASE(an_adapter_is_not_imported) {
  expect_error(ErrorKind::data, {"holds an adapter", "export", (dir / "base").string()},
               [&] { import_model(peft(llama_json(), {"q_proj"}), dir / "never"); });
}

BOOST_AUTO_TEST_CASE(targets_are_chosen_as_peft_does) {
  const auto chosen = [&](const json& targets) {
    peft(llama_json(), {"q_proj", "v_proj"}, {{"target_modules", targets}});
    return CheckpointReader::open(dir / "peft")->info().adapter->targets;
  };
  const Targets both{"q_proj", "v_proj"};
  BOOST_TEST(chosen({"self_attn.v_proj", "q_proj"}) == both, boost::test_tools::per_element());
  BOOST_TEST(chosen({"q_proj", "v_proj", "c_attn"}) == both, boost::test_tools::per_element());
  BOOST_TEST(chosen(R"(.*\.self_attn\.(q|v)_proj)") == both, boost::test_tools::per_element());
  const auto refused = [&](const json& targets, const std::vector<std::string>& words) {
    expect_error(ErrorKind::data, words, [&] { chosen(targets); });
  };
  refused({"qq_proj"}, {"target_modules", "no module", "q_proj"});
  refused({"lm_head", "q_proj"}, {"lm_head", "in no layer"});
  refused(R"(.*layers\.[01]\..*q_proj)", {"model.layers.2.self_attn.q_proj is not chosen"});
  refused("(", {"target_modules"});
  refused(nullptr, {"target_modules", "expected a list"});
}

BOOST_AUTO_TEST_CASE(what_peft_would_compute_otherwise_is_refused_by_name) {
  const std::vector<std::pair<const char*, json>> others{{"use_dora", true},
                                                         {"bias", "all"},
                                                         {"modules_to_save", {"lm_head"}},
                                                         {"rank_pattern", {{"q_proj", 4}}},
                                                         {"alpha_pattern", {{"q_proj", 4}}},
                                                         {"peft_type", "IA3"},
                                                         {"init_lora_weights", "pissa"},
                                                         {"init_lora_weights", "loftq"},
                                                         {"layers_to_transform", {0, 1}},
                                                         {"lora_bias", true},
                                                         {"task_type", "SEQ_CLS"},
                                                         {"r", 0},
                                                         {"lora_alpha", 0},
                                                         {"r", "2"}};
  for (const auto& [field, value] : others)
    expect_error(ErrorKind::data, {"adapter_config.json", field == std::string("r") ? "r" : "a"},
                 [&] {
                   CheckpointReader::open(peft(llama_json(), {"q_proj"}, {{field, value}}));
                 });
  for (const auto& [field, value] : {std::pair<const char*, json>("init_lora_weights", "gaussian"),
                                     {"init_lora_weights", false},
                                     {"use_dora", nullptr},
                                     {"rank_pattern", nullptr}})
    BOOST_CHECK_NO_THROW(CheckpointReader::open(peft(llama_json(), {"q_proj"}, {{field, value}})));
}

BOOST_AUTO_TEST_CASE(an_adapter_of_another_shape_is_refused_with_both) {
  peft(llama_json(), {"q_proj"}, {{"r", 3}});
  expect_error(ErrorKind::data, {"q_proj.lora_A.weight", "[2, 8]", "[3, 8]"},
               [&] { CheckpointReader::open(dir / "peft"); });
  peft(llama_json(), {"q_proj"}, {{"target_modules", {"q_proj", "k_proj"}}});
  expect_error(ErrorKind::data, {"k_proj.lora_A.weight is missing"},
               [&] { CheckpointReader::open(dir / "peft"); });
  peft(llama_json(), {"k_proj", "q_proj"}, {{"target_modules", {"q_proj"}}});
  expect_error(ErrorKind::data, {"k_proj.lora_A.weight is no part of the model"},
               [&] { CheckpointReader::open(dir / "peft"); });
}

BOOST_AUTO_TEST_CASE(a_base_that_is_not_here_is_named) {
  peft(llama_json(), {"q_proj"}, {{"base_model_name_or_path", "meta-llama/Llama-3.2-1B"}});
  expect_error(ErrorKind::data, {"base_model_name_or_path", "meta-llama/Llama-3.2-1B"},
               [&] { CheckpointReader::open(dir / "peft"); });
  BOOST_CHECK_NO_THROW(CheckpointReader::open(dir / "peft", dir / "base"));
  peft(llama_json(), {"q_proj"}, {{"base_model_name_or_path", "../base"}});
  BOOST_CHECK_NO_THROW(CheckpointReader::open(dir / "peft"));
  fs::remove(dir / "peft/adapter_model.safetensors");
  write_file(dir / "peft/adapter_model.bin", "");
  expect_error(ErrorKind::data, {"adapter_model.bin is another format"},
               [&] { CheckpointReader::open(dir / "peft"); });
}

BOOST_AUTO_TEST_CASE(texts_end_as_those_of_the_base) {
  peft(llama_json(), {"q_proj"});
  write_file(dir / "base/generation_config.json", R"({"eos_token_id": 5})");
  BOOST_TEST((end_tokens(dir / "peft") == std::vector<std::int32_t>{5}));
  write_file(dir / "peft/generation_config.json", R"({"eos_token_id": 6})");
  BOOST_TEST((end_tokens(dir / "peft") == std::vector<std::int32_t>{6}));
}

BOOST_AUTO_TEST_SUITE_END()
BOOST_AUTO_TEST_SUITE_END()
