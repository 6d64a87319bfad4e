#include <boost/test/unit_test.hpp>

#include "launch/commands/launching/run_summary.h"
#include "launch/manifest/inputs/placement.h"
#include "launch/manifest/resolve/run_spec.h"
#include "tests/launch/manifest_text.h"
#include "tests/support/expect_error.h"
#include "tests/support/hf_files.h"

// [adapter].

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(adapter_keys_test)

namespace {

using launch::Manifest;
using Targets = std::vector<std::string>;

struct Base {
  TempDir dir;

  /// A manifest that trains an adapter of a small Llama.
  std::string manifest(const std::string& adapter) const {
    const stages::ModelConfig shape{.hidden_size = 8,
                                    .intermediate_size = 12,
                                    .num_hidden_layers = 3,
                                    .num_attention_heads = 2,
                                    .num_key_value_heads = 1,
                                    .head_dim = 4,
                                    .vocab_size = 16};
    write_model(dir / "model", llama_json(), tensors_of(shape));
    return "[run]\nname = \"r\"\n[model]\nfrom = \"" + (dir / "model").string() + "\"\n" + adapter +
           "[data]\nfiles = [\"/corpus/text.txt\"]\n[batch]\nseq_len = 32\n";
  }
  /// PEFT's directory; its tensors are not looked at here.
  std::filesystem::path peft(const nlohmann::json& changes = {}) const {
    nlohmann::json config{{"peft_type", "LORA"}, {"r", 4},
                          {"lora_alpha", 12},    {"lora_dropout", 0.5},
                          {"use_rslora", true},  {"target_modules", {"v_proj", "q_proj"}}};
    for (const auto& [name, value] : changes.items()) config[name] = value;
    std::filesystem::create_directories(dir / "peft");
    write_file(dir / "peft/adapter_config.json", config.dump());
    return dir / "peft";
  }
  void refused(const std::string& adapter, const std::vector<std::string>& words,
               ErrorKind kind = ErrorKind::manifest) const {
    expect_error(kind, words, [&] { checked(manifest(adapter)); });
  }
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(adapter_keys, Base)

BOOST_AUTO_TEST_CASE(the_model_gets_the_adapter) {
  const Manifest m = checked(
      manifest("[adapter]\nrank = 2\nalpha = 3\ntargets = [\"v_proj\", \"q_proj\", \"v_proj\"]\n"));
  const actors::RunSpec spec = launch::to_run_spec(m);
  BOOST_REQUIRE(spec.model.adapter.has_value());
  const stages::Adapter& adapter = *spec.model.adapter;
  BOOST_TEST(adapter.rank == 2);
  BOOST_TEST(adapter.alpha == 3);
  BOOST_TEST(adapter.scale() == 1.5);
  BOOST_TEST(adapter.dropout == 0);
  BOOST_TEST(adapter.targets == (Targets{"q_proj", "v_proj"}), boost::test_tools::per_element());
  BOOST_TEST(adapter.base == (dir / "model").string());
  BOOST_TEST(spec.checkpoint.resume == adapter.base);
  BOOST_TEST(spec.checkpoint.weights_only);
  // Workers read the same from the resolved manifest.
  BOOST_TEST((launch::parse_resolved(m.to_toml()).model == spec.model));
  BOOST_TEST(num_trained_parameters(spec.model) == 3 * 2 * (8 + 8 + 8 + 4));
}

BOOST_AUTO_TEST_CASE(a_manifest_without_one_does_not_name_the_table) {
  BOOST_TEST(checked(kSmallManifest).to_toml().find("adapter") == std::string::npos);
}

BOOST_AUTO_TEST_CASE(all_linear_is_every_module_of_the_layers) {
  const Manifest m = checked(manifest("[adapter]\ntargets = \"all-linear\"\n"));
  BOOST_TEST(m->model.adapter->targets == (Targets{"down_proj", "gate_proj", "k_proj", "o_proj",
                                                   "q_proj", "up_proj", "v_proj"}),
             boost::test_tools::per_element());
  BOOST_TEST(m->model.adapter->rank == 8);
  BOOST_TEST(m->model.adapter->alpha == 8);
}

BOOST_AUTO_TEST_CASE(adapter_from_says_all_of_it) {
  const std::string from = "from = \"" + peft().string() + "\"\n";
  const Manifest m = checked(manifest("[adapter]\n" + from));
  const actors::RunSpec spec = launch::to_run_spec(m);
  const stages::Adapter& adapter = *spec.model.adapter;
  BOOST_TEST(adapter.rank == 4);
  BOOST_TEST(adapter.alpha == 12);
  BOOST_TEST(adapter.scale() == 6);
  BOOST_TEST(adapter.dropout == 0.5);
  BOOST_TEST(adapter.targets == (Targets{"q_proj", "v_proj"}), boost::test_tools::per_element());
  BOOST_TEST(spec.checkpoint.resume == (dir / "peft").string());
  BOOST_TEST(adapter.base == (dir / "model").string());
  const Manifest other = checked(manifest("[adapter]\ndropout = 0\n" + from));
  BOOST_TEST(other->model.adapter->dropout == 0);
  refused("[adapter]\nrank = 2\n" + from, {"adapter.rank = 2 contradicts", "where it is 4"});
  refused("[adapter]\ntargets = [\"q_proj\"]\n" + from, {"adapter.targets", "contradicts"});
  peft({{"use_dora", true}});
  refused("[adapter]\n" + from, {"adapter_config.json", "use_dora"}, ErrorKind::data);
  // A run that was resolved goes on without the directory.
  std::filesystem::remove_all(dir / "peft");
  BOOST_TEST((checked(m.to_toml())->model.adapter == m->model.adapter));
  refused("[adapter]\n" + from, {"peft"}, ErrorKind::data);
}

BOOST_AUTO_TEST_CASE(what_cannot_be_is_refused_with_what_can) {
  refused("[adapter]\ntargets = [\"qq_proj\"]\n",
          {"m.toml:", "adapter.targets has 'qq_proj'", "did you mean 'q_proj'?"});
  refused("[adapter]\nrank = 0\ntargets = [\"q_proj\"]\n", {"adapter.rank", "at least 1"});
  refused("[adapter]\nrank = 13\ntargets = [\"q_proj\"]\n",
          {"adapter.rank = 13 must lie between 1 and 12"});
  refused("[adapter]\nrank = 2\n", {"adapter.targets must name", "gate_proj, k_proj"});
  refused("[adapter]\nlora_alpha = 2\n", {"lora_alpha is adapter.alpha here"});
  refused("[adapter]\nuse_dora = true\n", {"LoRA"});
  refused("[[adapter]]\nrank = 2\n", {"[[adapter]]", "several adapters"});
  refused("[lora]\nrank = 2\n", {"lora is [adapter] here"});
  refused("[adapter]\ntargets = [\"q_proj\"]\n[[optimizer.group]]\nmatch = \"*norm*\"\n",
          {"'*norm*' matches no parameter", "lora"});
}

BOOST_AUTO_TEST_CASE(a_plan_counts_the_state_of_the_adapter_alone) {
  const actors::RunSpec spec = launch::to_run_spec(
      checked(manifest("[adapter]\nrank = 2\nalpha = 4\ntargets = [\"q_proj\", \"v_proj\"]\n")));
  const launch::Placement placement = launch::place(spec);
  const std::int64_t trained = 3 * 2 * (8 + 8 + 8 + 4);
  BOOST_TEST(placement.trained == trained);
  const launch::RankPlacement& rank = placement.ranks.at(0);
  BOOST_TEST(rank.parameters == placement.parameters);
  BOOST_TEST(rank.base == placement.parameters - trained);
  BOOST_TEST(rank.formula.weights == 4 * placement.parameters);
  BOOST_TEST(rank.formula.gradients == 4 * trained);
  BOOST_TEST(rank.formula.optimizer == 8 * trained);
  const std::string text = launch::summary(spec, placement, false, 0);
  BOOST_TEST(
      text.find("adapter   rank 2 of q_proj, v_proj, scale 2; the base, ") != std::string::npos,
      text);
}

BOOST_AUTO_TEST_CASE(it_needs_a_base_that_is_a_whole_model) {
  test::refused({"adapter.targets=q_proj"}, {"adapter.targets needs model.from"});
  const std::string text = manifest("[adapter]\ntargets = [\"q_proj\"]\n");
  write_file(dir / "model/adapter_config.json",
             R"({"peft_type": "LORA", "base_model_name_or_path": "x"})");
  expect_error(ErrorKind::data, {"base_model_name_or_path"}, [&] { checked(text); });
}

BOOST_AUTO_TEST_SUITE_END()
BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test
