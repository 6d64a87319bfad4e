#include <boost/test/unit_test.hpp>

#include "stages/files/copies/hugging_face.h"
#include "stages/files/hugging_face/hf_config.h"
#include "tests/support/expect_error.h"
#include "tests/support/hf_files.h"

// Directories of models with experts: fields of config.json, and experts in one tensor.

BOOST_AUTO_TEST_SUITE(hf_experts_test)

using namespace troupe;
using namespace troupe::stages;
using nlohmann::json;
using test::expect_error;
using test::RawTensor;
using test::RawTensors;

namespace {

json mixture(const std::string& kind, const json& fields = json::object()) {
  json config = test::llama_json();
  config["model_type"] = kind;
  config["architectures"] = {kind == "mixtral" ? "MixtralForCausalLM" : "Qwen3MoeForCausalLM"};
  config["num_experts_per_tok"] = 2;
  config["num_local_experts"] = 3;
  if (kind == "qwen3_moe") config["moe_intermediate_size"] = 6;
  config.update(fields);
  return config;
}

struct Fixture {
  test::TempDir dir;

  ModelConfig model_of(const json& config) {
    return read_hf_config(dir.write("config.json", config.dump())).model;
  }
  void refused(const json& config, const std::vector<std::string>& words) {
    expect_error(ErrorKind::data, words, [&] { model_of(config); });
  }
};

/// The experts of each layer in one tensor, as transformers 5 computes with them.
RawTensors fused(const RawTensors& tensors, std::int64_t count, const Experts& experts,
                 const char* module, const std::vector<const char*>& names) {
  RawTensors all;
  for (const auto& [name, tensor] : tensors) {
    const auto at = name.find(std::string(module) + ".");
    if (at == std::string::npos) {
      all[name] = tensor;
      continue;
    }
    if (name.ends_with(".gate.weight")) all[name.substr(0, at) + "mlp.gate.weight"] = tensor;
  }
  for (std::int64_t layer = 0; layer < count; ++layer) {
    const std::string stem = "model.layers." + std::to_string(layer) + ".";
    const auto join = [&](const std::vector<const char*>& parts, std::vector<std::int64_t> shape) {
      RawTensor whole{.dtype = "F32", .shape = std::move(shape), .bytes = {}};
      for (std::int64_t e = 0; e < experts.count; ++e)
        for (const char* part : parts)
          whole.bytes +=
              tensors.at(stem + module + ".experts." + std::to_string(e) + "." + part + ".weight")
                  .bytes;
      return whole;
    };
    all[stem + "mlp.experts.gate_up_proj"] =
        join({names[0], names[1]}, {experts.count, 2 * experts.width, 8});
    all[stem + "mlp.experts.down_proj"] = join({names[2]}, {experts.count, 8, experts.width});
  }
  return all;
}

}  // namespace

BOOST_FIXTURE_TEST_SUITE(experts, Fixture)

BOOST_AUTO_TEST_CASE(fields_of_experts_are_read_in_both_spellings) {
  const Experts mixtral = model_of(mixture("mixtral")).experts;
  BOOST_TEST((mixtral == Experts{.count = 3, .per_token = 2, .width = 12}));
  json old = mixture("qwen3_moe", {{"norm_topk_prob", true}});
  BOOST_TEST((model_of(old).experts == Experts{.count = 3, .per_token = 2, .width = 6}));
  old.erase("num_local_experts");
  old["num_experts"] = 5;
  BOOST_TEST(model_of(old).experts.count == 5);
  old.erase("norm_topk_prob");
  BOOST_TEST(!model_of(old).experts.normalizes);
  old["num_local_experts"] = 4;
  refused(old, {"num_experts = 5", "num_local_experts is 4"});
}

BOOST_AUTO_TEST_CASE(a_loss_for_balance_is_asked_for) {
  BOOST_TEST(model_of(mixture("mixtral", {{"router_aux_loss_coef", 0.5}})).experts.aux_loss_coef ==
             0);
  json config = mixture("mixtral", {{"output_router_logits", true}});
  BOOST_TEST(model_of(config).experts.aux_loss_coef == 0.001);
  config["router_aux_loss_coef"] = 0.5;
  ModelConfig model = model_of(config);
  BOOST_TEST(model.experts.aux_loss_coef == 0.5);
  // What trained says otherwise is written, and nothing else.
  const auto trained = [&] { return json::parse(trained_hf_config(config.dump(), model)); };
  BOOST_TEST(trained() == config);
  model.experts.aux_loss_coef = 0.25;
  BOOST_TEST(model_of(trained()).experts.aux_loss_coef == 0.25);
  model.experts.aux_loss_coef = 0;
  BOOST_TEST(model_of(trained()).experts.aux_loss_coef == 0);
}

BOOST_AUTO_TEST_CASE(what_is_not_computed_is_refused) {
  refused(mixture("mixtral", {{"router_jitter_noise", 0.1}}), {"router_jitter_noise"});
  BOOST_CHECK_NO_THROW(model_of(mixture("mixtral", {{"router_jitter_noise", 0.0}})));
  refused(mixture("qwen3_moe", {{"shared_expert_intermediate_size", 8}}), {"shared_expert"});
  refused(mixture("qwen3_moe", {{"moe_intermediate_size", {6, 8, 6}}}), {"moe_intermediate_size"});
  refused(mixture("qwen3_moe", {{"mlp_only_layers", {3}}}),
          {"mlp_only_layers", "num_hidden_layers = 3"});
  refused(mixture("qwen3_moe", {{"decoder_sparse_step", 0}}), {"decoder_sparse_step"});
  refused(mixture("mixtral", {{"num_experts_per_tok", 4}}), {"num_experts_per_tok = 4", "3"});
  refused(mixture("mixtral", {{"quantization_config", {{"quant_method", "fp8"}}}}),
          {"fp8", "quantized"});
}

BOOST_AUTO_TEST_CASE(experts_in_one_tensor_are_those_of_many) {
  for (const bool is_mixtral : {true, false}) {
    const std::string kind = is_mixtral ? "mixtral" : "qwen3_moe";
    const json config = mixture(kind);
    const ModelConfig model = model_of(config);
    const RawTensors tensors = test::tensors_of(model);
    const auto all =
        is_mixtral ? fused(tensors, 3, model.experts, "block_sparse_moe", {"w1", "w3", "w2"})
                   : fused(tensors, 3, model.experts, "mlp", {"gate_proj", "up_proj", "down_proj"});
    BOOST_TEST(all.size() < tensors.size());
    test::write_model(dir / kind, config, all);
    import_model(dir / kind, dir / (kind + "-in"));
    export_model(dir / (kind + "-in"), dir / (kind + "-out"), std::nullopt);
    BOOST_TEST((test::raw_tensors(dir / (kind + "-out") / "model.safetensors") == tensors), kind);
    RawTensors broken = all;
    broken.at("model.layers.1.mlp.experts.down_proj").shape = {3, model.experts.width, 8};
    test::write_model(dir / (kind + "-broken"), config, broken);
    expect_error(ErrorKind::data, {"model.layers.1.mlp.experts.down_proj", "expected [3, 8, "},
                 [&] { import_model(dir / (kind + "-broken"), dir / "never"); });
  }
}

BOOST_AUTO_TEST_CASE(an_expert_of_another_shape_is_named) {
  const json config = mixture("mixtral");
  RawTensors tensors = test::tensors_of(model_of(config));
  const std::string odd = "model.layers.2.block_sparse_moe.experts.1.w1.weight";
  tensors.at(odd).shape = {6, 16};
  test::write_model(dir / "odd", config, tensors);
  expect_error(ErrorKind::data, {odd, "[6, 16]", "[12, 8]"},
               [&] { import_model(dir / "odd", dir / "never"); });
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE_END()
