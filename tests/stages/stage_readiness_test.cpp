#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <set>

#include "stages/decoder/stage/transformer_stage.h"
#include "tests/support/families.h"
#include "tests/support/pipeline.h"
#include "tests/support/test_device.h"

// Tests that nodes say to which gradients they add (NodeEffects::gradients): a caller takes a
// gradient for complete once the last of them has run.

namespace troupe::test {

BOOST_AUTO_TEST_SUITE(stage_readiness_test)

namespace {

using stages::Pass;

std::vector<stages::ModelConfig> models() {
  const stages::ModelConfig llama{.hidden_size = 16,
                                  .intermediate_size = 24,
                                  .num_hidden_layers = 2,
                                  .num_attention_heads = 2,
                                  .num_key_value_heads = 1,
                                  .head_dim = 8,
                                  .vocab_size = 32};
  std::vector<stages::ModelConfig> all(4, llama);
  all[1].tie_word_embeddings = true;
  all[2].attention_bias = all[2].mlp_bias = true;
  all[3].kind = stages::ModelKind::gpt2;
  all[3].num_key_value_heads = 2;
  all[3].max_position_embeddings = 8;
  all[3].tie_word_embeddings = true;
  for (const char* family : kFamilies) all.push_back(as_family(llama, family));
  return all;
}

std::vector<std::vector<float>> gradients_of(const stages::Stage& stage) {
  std::vector<std::vector<float>> all;
  for (const stages::Parameter& parameter : stage.parameters()) {
    const tensor::Tensor x = opened(parameter.gradient);
    all.emplace_back(x.as<float>(), x.as<float>() + x.num_elements());
  }
  return all;
}

/// Runs the nodes of a pass one by one. Each changes no gradient but those that it names.
void run_by_nodes(stages::Stage& stage, const stages::BackwardCall& call, std::set<int>& named) {
  auto before = gradients_of(stage);
  const auto nodes = stage.nodes(call.chunk, call.pass);
  for (std::size_t node = 0; node < nodes.size(); ++node) {
    stage.backward_node(call, static_cast<int>(node));
    stage.ran(call.chunk, call.slot).synchronize();
    auto after = gradients_of(stage);
    const auto& names = nodes[node].gradients;
    for (std::size_t i = 0; i < after.size(); ++i)
      if (std::ranges::find(names, static_cast<int>(i)) == names.end())
        BOOST_TEST((after[i] == before[i]), stage.parameters()[i].name << " at node " << node);
    named.insert(names.begin(), names.end());
    before = std::move(after);
  }
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_gradient_changes_in_the_nodes_that_name_it_alone) {
  for (const stages::ModelConfig& model : models())
    for (const bool whole : {true, false}) {
      const auto device = make_test_device();
      Pipeline pipeline(
          {.model = model, .layers_of_chunk = {2}, .stage_of_chunk = {0}, .microbatches = 1},
          *device, 5);
      stages::Stage& stage = *pipeline.stages().front();
      const Tokens tokens = random_tokens(8, model.vocab_size, 1);
      double sum = 0;
      stage.begin_step();
      run_forward(
          stage,
          {.ids = tokens.ids, .targets = tokens.targets, .loss = {&sum, tensor::DType::f64, {1}}});
      std::set<int> named;
      if (whole) {
        run_by_nodes(stage, {.pass = Pass::backward}, named);
      } else {
        run_by_nodes(stage, {.pass = Pass::input_gradient}, named);
        BOOST_TEST(named.empty());
        run_by_nodes(stage, {.pass = Pass::weight_gradient}, named);
      }
      BOOST_TEST(named.size() == stage.parameters().size());
    }
}

// Else its slot is taken for ever.
BOOST_AUTO_TEST_CASE(a_backward_lets_the_gradient_that_it_receives_go_once) {
  const auto device = make_test_device();
  std::vector<stages::ModelConfig> all = models();
  for (const stages::ModelConfig& model : models()) all.push_back(with_adapter(model));
  all.push_back(with_adapter(models().front(), 0, {"o_proj"}));
  for (const stages::ModelConfig& model : all)
    for (const std::vector<int>& layers : {std::vector{0, 2, 0}, {1, 0, 1}}) {
      Pipeline pipeline({.model = model, .layers_of_chunk = layers, .stage_of_chunk = {0, 1, 2}},
                        *device, 5);
      for (const auto& stage : pipeline.stages()) {
        const auto times = [&](Pass pass) {
          return std::ranges::count_if(stage->nodes(0, pass),
                                       &stages::NodeEffects::output_gradient);
        };
        const int expected = stage == pipeline.stages().back() ? 0 : 1;
        BOOST_TEST(times(Pass::backward) == expected);
        BOOST_TEST(times(Pass::input_gradient) + times(Pass::weight_gradient) == expected);
      }
    }
}

BOOST_AUTO_TEST_CASE(both_uses_of_a_tied_matrix_name_it) {
  const auto device = make_test_device();
  for (const stages::ModelConfig& model : models()) {
    Pipeline pipeline({.model = model, .layers_of_chunk = {2}, .stage_of_chunk = {0}}, *device, 5);
    int uses = 0;
    for (const stages::NodeEffects& node :
         pipeline.stages().front()->nodes(0, Pass::weight_gradient))
      uses += static_cast<int>(std::ranges::count(node.gradients, 0));
    BOOST_TEST(uses == (model.tie_word_embeddings ? 2 : 1));
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::test
