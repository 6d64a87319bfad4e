#include <boost/test/unit_test.hpp>

#include "launch/manifest/inputs/differences.h"
#include "launch/manifest/inputs/placement.h"
#include "launch/manifest/resolve/run_spec.h"
#include "tests/launch/manifest_text.h"
#include "tests/support/expect_error.h"

// [[optimizer.group]]: parameters that are trained otherwise.

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(groups_test)

namespace {

/// The small manifest, a llama of tied or untied embeddings, with these groups.
launch::Manifest grouped(const std::string& groups) {
  return checked(std::string(kSmallManifest) + "\n" + groups);
}

void refused(const std::string& groups, const std::vector<std::string>& words) {
  expect_error(ErrorKind::manifest, words, [&] { grouped(groups); });
}

const std::string kThree = R"(
[[optimizer.group]]
match = "model.embed_tokens.weight"
frozen = true

[[optimizer.group]]
match = "*norm.weight"
weight_decay = 0.5

[[optimizer.group]]
match = "model.layers.0.*"
lr_scale = 0.1
)";

}  // namespace

BOOST_AUTO_TEST_CASE(the_first_group_that_matches_decides) {
  const stages::ModelConfig model = to_run_spec(grouped(kThree)).model;
  const auto all = parameters_by_name(model);
  BOOST_TEST(all.at("model.embed_tokens.weight").update.frozen);
  BOOST_TEST(all.at("model.layers.0.input_layernorm.weight").update.weight_decay.value_or(0) ==
             0.5);
  BOOST_TEST(all.at("model.layers.0.input_layernorm.weight").update.lr_scale == 1.0);
  BOOST_TEST(all.at("model.layers.0.mlp.up_proj.weight").update.lr_scale == 0.1);
  BOOST_TEST((all.at("model.layers.1.mlp.up_proj.weight").update == stages::UpdateRule{}));
}

BOOST_AUTO_TEST_CASE(the_resolved_manifest_has_the_groups) {
  const launch::Manifest m = grouped(kThree);
  const auto again = launch::Manifest::parse(m.to_toml(), "again.toml", {});
  BOOST_TEST((again->model.groups == m->model.groups));
  BOOST_TEST((to_run_spec(again).model == to_run_spec(m).model));
  BOOST_TEST(m->model.groups.size() == 3u);
}

BOOST_AUTO_TEST_CASE(gpt2_has_groups_by_the_names_of_its_files) {
  // Queries, keys and values are one tensor of the files, and have one group.
  const auto spec = to_run_spec(
      checked(kSmallManifest, {"model.kind=gpt2", "model.num_key_value_heads=6",
                               "optimizer.group=[{match = \"*.c_attn.*\", frozen = true}]"}));
  int frozen = 0;
  for (const auto& info : parameters_of(spec.model)) frozen += info.update.frozen ? 1 : 0;
  BOOST_TEST(frozen == 6 * spec.model.num_hidden_layers);
}

BOOST_AUTO_TEST_CASE(what_no_group_can_be_is_refused) {
  refused("[[optimizer.group]]\nmatch = \"*.q_prj.weight\"",
          {"optimizer.group", "'*.q_prj.weight' matches no parameter",
           "'model.layers.*.self_attn.q_proj.weight'"});
  refused("[[optimizer.group]]\nmatch = \"\"", {"'' matches no parameter"});
  refused("[[optimizer.group]]\nfrozen = true", {"[[optimizer.group]] has no match"});
  refused("[[optimizer.group]]\nmatch = \"*\"\nlr = 3",
          {"unknown key 'lr'", "did you mean 'lr_scale' (Times the learning rate of each step)?"});
  refused("[[optimizer.group]]\nmatch = \"*\"\nlr_scale = 0", {"lr_scale", "above 0"});
  refused("[[optimizer.group]]\nmatch = \"*\"\nfrozen = true", {"all parameters are frozen"});
  refused("[[optimizer.group]]\nmatch = \"*norm*\"\nfrozen = true\nweight_decay = 0.0",
          {"'*norm*' is frozen", "weight_decay"});
  refused(
      kThree + "[[optimizer.group]]\nmatch = \"*embed*\"\nlr_scale = 2",
      {"'*embed*' matches only what groups before it match", "'model.embed_tokens.weight' does"});
  expect_error(ErrorKind::manifest, {"optimizer.group must be a list of tables"},
               [] { checked(kSmallManifest, {"optimizer.group=3"}); });
}

BOOST_AUTO_TEST_CASE(the_plan_counts_what_trains) {
  const auto whole = launch::place(to_run_spec(grouped("")));
  const auto spec = to_run_spec(grouped(kThree));
  const auto placement = launch::place(spec);
  const std::int64_t frozen = spec.model.vocab_size * spec.model.hidden_size;
  BOOST_TEST(placement.parameters == whole.parameters);
  BOOST_TEST(placement.trained == whole.trained - frozen);
  BOOST_REQUIRE(placement.groups.size() == 3u);
  BOOST_TEST(placement.groups[0].parameters == frozen);
  BOOST_TEST(placement.groups[1].tensors == 2 * spec.model.num_hidden_layers + 1);
  BOOST_TEST(placement.groups[2].tensors == 7);
  std::int64_t trained = 0, moments = 0;
  for (const auto& rank : placement.ranks) trained += rank.trained;
  for (std::size_t i = 0; i < placement.ranks.size(); ++i)
    moments += whole.ranks[i].memory.allocated.stage.optimizer -
               placement.ranks[i].memory.allocated.stage.optimizer;
  BOOST_TEST(trained == placement.trained);
  BOOST_TEST(moments >= 8 * frozen);
}

BOOST_AUTO_TEST_CASE(a_parameter_that_was_frozen_has_no_moments_to_go_on_with) {
  const launch::Manifest before = grouped(kThree), now = grouped("");
  const stages::CheckpointInfo of_before{.step = 4, .model = to_run_spec(before).model};
  const stages::CheckpointInfo of_now{.step = 4, .model = to_run_spec(now).model};
  expect_error(ErrorKind::data,
               {"model.embed_tokens.weight was frozen up to step 4", "weights_only"},
               [&] { check_released(now, of_before); });
  check_released(before, of_before);
  check_released(before, of_now);
  const stages::CheckpointInfo trained{
      .step = 4, .model = to_run_spec(now).model, .training = stages::Training{}};
  const auto told = differences(before, trained).told;
  BOOST_TEST(
      (std::ranges::find(told, "frozen from now on: model.embed_tokens.weight") != told.end()));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test
