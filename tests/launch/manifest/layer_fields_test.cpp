#include <boost/test/unit_test.hpp>

#include "launch/manifest/resolve/run_spec.h"
#include "tests/launch/manifest_text.h"
#include "tests/support/expect_error.h"
#include "tests/support/hf_files.h"

// model.config: what only some kinds of models have.

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(layer_fields_test)

namespace {

using launch::Manifest;
using stages::ModelConfig;

ModelConfig model_of(const std::vector<std::string>& overrides) {
  return launch::to_run_spec(checked(kSmallManifest, overrides)).model;
}

void refused(const std::vector<std::string>& overrides, const std::vector<std::string>& words) {
  expect_error(ErrorKind::manifest, words, [&] { checked(kSmallManifest, overrides); });
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_kind_begins_with_the_fields_of_its_family) {
  const ModelConfig gemma = model_of({"model.kind=gemma2"});
  BOOST_TEST(gemma.sliding_window == 4096);
  BOOST_TEST(gemma.attn_logit_softcapping == 50);
  BOOST_TEST(gemma.tie_word_embeddings);
  const ModelConfig set =
      model_of({"model.kind=gemma2",
                R"(model.config={"sliding_window": 9, "attn_logit_softcapping": null})"});
  BOOST_TEST(set.sliding_window == 9);
  BOOST_TEST(set.attn_logit_softcapping == 0);
  BOOST_TEST(set.final_logit_softcapping == 30);
  const ModelConfig phi = model_of(
      {"model.kind=phi3", "model.head_dim=16", "model.rope_type=longrope", "model.rope_factor=2",
       R"(model.config={"partial_rotary_factor": 0.25, "short_factor": [1, 2], )"
       R"("long_factor": [3, 4]})"});
  BOOST_TEST(phi.rotary.dim == 4);
  BOOST_TEST(phi.rotary.long_factor == std::vector({3.0, 4.0}));
}

BOOST_AUTO_TEST_CASE(a_resolved_manifest_has_them_where_a_kind_has_them) {
  BOOST_TEST(checked(kSmallManifest).to_toml().find("\nconfig =") == std::string::npos);
  for (const auto& kind : stages::model_kinds()) {
    const std::string option = std::string("model.kind=") + kind.name;
    const Manifest m = checked(kSmallManifest, {option, "model.num_key_value_heads=6"});
    const std::string text = m.to_toml();
    const ModelConfig model = launch::to_run_spec(m).model;
    BOOST_TEST((launch::parse_resolved(text).model == model), kind.name);
    const Manifest again = checked(text);
    BOOST_TEST((launch::to_run_spec(again).model == model), kind.name);
    BOOST_TEST(again.to_toml() == text, kind.name);
  }
}

BOOST_AUTO_TEST_CASE(experts_have_keys) {
  const ModelConfig mixtral = model_of({"model.kind=mixtral", "model.intermediate_size=96"});
  BOOST_TEST(mixtral.experts.count == 8);
  BOOST_TEST(mixtral.experts.per_token == 2);
  BOOST_TEST(mixtral.experts.width == 96);
  BOOST_TEST(mixtral.experts.aux_loss_coef == 0);
  const std::vector<std::string> set{"model.kind=qwen3_moe",
                                     "model.num_experts=6",
                                     "model.num_experts_per_tok=3",
                                     "model.moe_intermediate_size=40",
                                     "model.norm_topk_prob=false",
                                     "model.router_aux_loss_coef=0.25",
                                     "model.router_z_loss_coef=0.5",
                                     "model.expert_capacity=99",
                                     R"(model.config={"mlp_only_layers": [1]})"};
  const stages::Experts qwen3 = model_of(set).experts;
  const stages::Experts expected{.count = 6,
                                 .per_token = 3,
                                 .width = 40,
                                 .normalizes = false,
                                 .aux_loss_coef = 0.25,
                                 .z_loss_coef = 0.5,
                                 .capacity = 99,
                                 .dense_layers = {1}};
  BOOST_TEST((qwen3 == expected));
  const std::string text = checked(kSmallManifest, set).to_toml();
  BOOST_TEST((launch::parse_resolved(text).model.experts == expected), text);
  BOOST_TEST(checked(kSmallManifest).to_toml().find("expert") == std::string::npos);
  refused({"model.num_experts=4"}, {"num_experts", "mixtral", "llama"});
  refused({"model.kind=mixtral", "model.num_experts_per_tok=9"}, {"num_experts_per_tok = 9", "8"});
  refused({"model.kind=mixtral", "model.moe_intermediate_size=9"}, {"intermediate_size"});
  refused({"model.kind=mixtral", "model.norm_topk_prob=false"}, {"norm_topk_prob"});
}

BOOST_AUTO_TEST_CASE(what_a_kind_lacks_is_refused) {
  refused({R"(model.config={"sliding_window": 9})"}, {"sliding_window", "llama"});
  refused({"model.kind=mistral", R"(model.config={"sliding_window": 0})"}, {"sliding_window"});
  refused({"model.kind=mistral", "model.config={"}, {"--set model.config"});
  refused({"model.kind=qwen2", "model.attention_bias=true"},
          {"attention_bias", "queries, keys and values"});
  refused({"model.kind=mistral", "model.mlp_bias=true"}, {"mlp_bias", "none"});
  refused({"model.kind=qwen3", "model.layer_norm_epsilon=0.1"}, {"layer_norm_epsilon", "qwen3"});
  refused({"model.rope_type=longrope", "model.rope_factor=2"}, {"rope_"});
  refused({"model.kind=phi3", "model.rope_type=linear", "model.rope_factor=2"},
          {"rope_type", "phi3"});
}

BOOST_AUTO_TEST_CASE(a_directory_decides_them) {
  TempDir dir;
  nlohmann::json config = llama_json();
  config["model_type"] = "mistral";
  config["architectures"] = {"MistralForCausalLM"};
  config["sliding_window"] = 9;
  const auto text = [&](const std::string& more) {
    return "[run]\nname = \"r\"\n[model]\nfrom = \"" + (dir / "model").string() + "\"\n" + more +
           "[data]\nfiles = [\"/corpus/text.txt\"]\n[batch]\nseq_len = 32\n";
  };
  const ModelConfig shape{.kind = stages::ModelKind::mistral,
                          .hidden_size = 8,
                          .intermediate_size = 12,
                          .num_hidden_layers = 3,
                          .num_attention_heads = 2,
                          .num_key_value_heads = 1,
                          .head_dim = 4,
                          .vocab_size = 16};
  write_model(dir / "model", config, tensors_of(shape));
  BOOST_TEST(launch::to_run_spec(checked(text(""))).model.sliding_window == 9);
  BOOST_CHECK_NO_THROW(checked(text("config = '{\"sliding_window\":9}'\n")));
  expect_error(ErrorKind::manifest, {"m.toml:5:", "model.config", "sliding_window"},
               [&] { checked(text("config = '{\"sliding_window\":8}'\n")); });
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test
