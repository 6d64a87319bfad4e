#include <boost/test/unit_test.hpp>
#include <optional>

#include "tests/support/trained_run.h"

// Tests runs of models of later families, with real processes and real UCX: norms of heads, of what
// is added and of the whole width, windows, soft caps, experts.

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(families_test)

namespace {

struct Family {
  const char* name;
  Keys keys;
};

const Family kFamiliesOfRuns[] = {
    {"qwen3", {{"model.kind", "\"qwen3\""}, {"model.head_dim", "12"}}},
    {"gemma2",
     {{"model.kind", "\"gemma2\""},
      {"model.head_dim", "12"},
      {"model.config",
       "'{\"sliding_window\": 5, \"query_pre_attn_scalar\": 20, \"attn_logit_softcapping\": 3.0, "
       "\"final_logit_softcapping\": 4.0}'"}}},
    {"olmo2", {{"model.kind", "\"olmo2\""}}},
    {"qwen3_moe",
     {{"model.kind", "\"qwen3_moe\""},
      {"model.head_dim", "12"},
      {"model.num_experts", "6"},
      {"model.num_experts_per_tok", "3"},
      {"model.moe_intermediate_size", "48"},
      {"model.router_aux_loss_coef", "0.05"},
      {"model.router_z_loss_coef", "0.01"},
      {"model.norm_topk_prob", "false"},
      {"model.config", "'{\"mlp_only_layers\": [1]}'"}}}};

/// Meshes whose losses have the same bits: they differ in stages, schedule and recompute alone.
const std::vector<std::vector<Keys>> kMeshes = {
    {{},
     {{"mesh.pp", "3"}, {"recompute.mode", "\"selective\""}},
     {{"mesh.pp", "2"},
      {"schedule.kind", "\"combined-1f1b\""},
      {"schedule.chunks", "2"},
      {"recompute.mode", "\"full\""}}},
    {{{"mesh.tp", "2"}}, {{"mesh.tp", "2"}, {"mesh.pp", "2"}, {"schedule.kind", "\"zb-h1\""}}},
    {{{"mesh.tp", "4"}, {"mesh.sequence_parallel", "true"}},
     {{"mesh.tp", "4"},
      {"mesh.sequence_parallel", "true"},
      {"mesh.pp", "2"},
      {"recompute.mode", "\"full\""}}},
    {{{"mesh.pp", "2"}, {"schedule.kind", "\"dualpipe\""}}},  // two copies, whose gradients add up
    {{{"mesh.dp", "2"}, {"data_parallel.sharding", "\"optim_grads_params\""}}},
};

}  // namespace

BOOST_AUTO_TEST_CASE(every_mesh_trains_a_family_as_one_process_does) {
  for (const auto& [family, keys] : kFamiliesOfRuns) {
    const Workplace place;
    const Numbers one = trained(place, "one", keys);
    BOOST_TEST(one.at(6).loss < one.at(1).loss);
    int number = 0;
    for (const auto& alike : kMeshes) {
      std::optional<Numbers> first;
      for (const Keys& mesh : alike) {
        const std::string name = "mesh" + std::to_string(number++);
        const Numbers numbers = trained(place, name, with(keys, mesh));
        BOOST_TEST(numbers.size() == one.size());
        BOOST_TEST(distance(numbers, one) < 2e-6,
                   family << ", " << name << ": " << distance(numbers, one));
        if (!first) first = numbers;
        for (const auto& [step, values] : *first)
          BOOST_TEST((numbers.at(step) == values),
                     family << ", " << name << " differs at step " << step);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(a_checkpoint_of_a_family_resumes_and_generates_on_any_mesh) {
  for (const auto& [family, keys] : kFamiliesOfRuns) {
    const Workplace place;
    const Numbers whole = trained(place, "whole", with(keys, {{"run.max_steps", "12"}}));
    trained(place, "half", with(keys, {{"mesh.tp", "2"}, {"mesh.sequence_parallel", "true"}}));
    const std::string half = place.checkpoint("half", 6);
    const Numbers rest = trained(
        place, "rest",
        with(keys,
             {{"mesh.pp", "3"}, {"checkpoint.resume", '"' + half + '"'}, {"run.max_steps", "12"}}));
    BOOST_TEST(rest.size() == 6u);
    BOOST_TEST(distance(rest, whole) < 2e-6, family << ": " << distance(rest, whole));
    std::optional<std::string> text;
    for (const std::vector<std::string>& parts :
         {std::vector<std::string>{}, {"--tp", "2"}, {"--pp", "2"}}) {
      std::vector<std::string> command{"generate", half, "--prompt",      "the ",
                                       "--tokens", "24", "--temperature", "0"};
      command.insert(command.end(), parts.begin(), parts.end());
      const Finished done = troupe(command);
      BOOST_TEST(done.exit_code == 0, done.err);
      if (!text) text = done.out;
      BOOST_TEST(done.out == *text, family);
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test
