#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <set>

#include "stages/decoder/parameters/parameters.h"
#include "tests/support/pipeline.h"
#include "tests/support/test_device.h"

BOOST_AUTO_TEST_SUITE(stage_parameters_test)

using namespace troupe;
using namespace troupe::test;

namespace {

// A model whose sizes fill no 64-byte line, so that padding shows.
stages::ModelConfig odd_model(bool tied) {
  return {.hidden_size = 15,
          .intermediate_size = 7,
          .num_hidden_layers = 3,
          .num_attention_heads = 3,
          .num_key_value_heads = 1,
          .head_dim = 2,
          .vocab_size = 11,
          .tie_word_embeddings = tied};
}

PipelineSpec cut(bool tied, std::vector<int> layers, std::vector<int> stages) {
  return {.model = odd_model(tied), .layers_of_chunk = layers, .stage_of_chunk = stages};
}

std::vector<std::string> names_of(const stages::Stage& stage) {
  std::vector<std::string> names;
  for (const stages::Parameter& p : stage.parameters()) names.push_back(p.name);
  return names;
}

const float* end_of(const tensor::Tensor& t) {
  return t.as<float>() + t.num_elements();
}

std::vector<float> values(const tensor::Tensor& t) {
  const tensor::Tensor readable = opened(t);
  const float* const begin = readable.as<float>();
  return {begin, end_of(readable)};
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_whole_model_holds_every_parameter_in_canonical_order) {
  const auto device = test::make_test_device();
  for (const bool tied : {false, true}) {
    Pipeline pipeline(cut(tied, {1, 2}, {0, 0}), *device, 1);
    const auto& stage = *pipeline.stages().front();
    const auto infos = parameters_of(odd_model(tied));
    BOOST_REQUIRE(stage.parameters().size() == infos.size());
    for (std::size_t i = 0; i < infos.size(); ++i) {
      const stages::Parameter& p = stage.parameters()[i];
      BOOST_TEST(p.name == infos[i].name);
      BOOST_TEST((p.weight.shape == infos[i].shape));
      BOOST_TEST(p.owned);
      const std::optional<double> none;
      BOOST_TEST((p.update.weight_decay == (infos[i].shape.rank() == 2 ? none : 0.0)));
    }
    BOOST_TEST(!stage.tied_gradient());
  }
}

BOOST_AUTO_TEST_CASE(storages_are_contiguous_aligned_and_joined) {
  const auto device = test::make_test_device();
  Pipeline pipeline(cut(false, {3}, {0}), *device, 1);
  const auto& stage = *pipeline.stages().front();
  const auto all = stage.parameters();
  const tensor::Tensor gradients = stage.gradients();
  for (std::size_t i = 0; i < all.size(); ++i) {
    const std::string& name = all[i].name;
    const bool joined = name.find("k_proj") != name.npos || name.find("v_proj") != name.npos ||
                        name.find("up_proj") != name.npos;
    for (const auto field : {&stages::Parameter::weight, &stages::Parameter::gradient,
                             &stages::Parameter::exp_avg, &stages::Parameter::exp_avg_sq}) {
      const tensor::Tensor& t = all[i].*field;
      BOOST_TEST((t.dtype == tensor::DType::f32));
      BOOST_TEST((t.shape == all[i].weight.shape));
      if (joined) {
        BOOST_TEST(t.as<float>() == end_of(all[i - 1].*field), name);
      } else {
        BOOST_TEST(reinterpret_cast<std::uintptr_t>(t.data) % 64 == 0u, name);
      }
    }
    BOOST_TEST(all[i].gradient.as<float>() >= gradients.as<float>());
    BOOST_TEST(end_of(all[i].gradient) <= end_of(gradients));
  }
}

BOOST_AUTO_TEST_CASE(padding_of_gradients_stays_zero) {
  const auto device = test::make_test_device();
  Pipeline pipeline(cut(false, {3}, {0}), *device, 1);
  pipeline.gradients({random_tokens(8, 11, 1)});
  const auto& stage = *pipeline.stages().front();
  std::set<const float*> inside;
  for (const stages::Parameter& p : stage.parameters()) {
    for (const float* x = p.gradient.as<float>(); x != end_of(p.gradient); ++x) inside.insert(x);
  }
  const tensor::Tensor gradients = stage.gradients();
  BOOST_TEST(static_cast<std::int64_t>(inside.size()) < gradients.num_elements());
  for (const float* x = gradients.as<float>(); x != end_of(gradients); ++x) {
    if (!inside.contains(x)) BOOST_TEST(*static_cast<float*>(test::opened(x)) == 0.0f);
  }
}

BOOST_AUTO_TEST_CASE(stages_own_each_parameter_once) {
  const auto device = test::make_test_device();
  for (const bool tied : {false, true}) {
    Pipeline pipeline(cut(tied, {1, 1, 1}, {0, 1, 2}), *device, 1);
    std::vector<std::string> owned;
    for (const auto& stage : pipeline.stages()) {
      for (const auto& p : stage->parameters()) {
        if (p.owned) owned.push_back(p.name);
      }
    }
    std::vector<std::string> expected;
    for (const auto& info : parameters_of(odd_model(tied))) expected.push_back(info.name);
    BOOST_TEST(owned == expected, boost::test_tools::per_element());
  }
}

BOOST_AUTO_TEST_CASE(interleaved_chunks_keep_canonical_order) {
  const auto device = test::make_test_device();
  Pipeline pipeline(cut(false, {1, 1, 1}, {0, 1, 0}), *device, 1);
  const auto names = names_of(*pipeline.stages().front());
  BOOST_TEST(names.front() == "model.embed_tokens.weight");
  BOOST_TEST(names[1] == "model.layers.0.input_layernorm.weight");
  BOOST_TEST(names[10] == "model.layers.2.input_layernorm.weight");
  BOOST_TEST(names.back() == "lm_head.weight");
  BOOST_TEST(names.size() == 21u);
}

BOOST_AUTO_TEST_CASE(a_head_away_from_the_tied_embedding_holds_a_copy) {
  const auto device = test::make_test_device();
  Pipeline pipeline(cut(true, {1, 1, 1}, {0, 1, 2}), *device, 1);
  const auto& stages = pipeline.stages();
  const stages::Parameter& embedding = stages[0]->parameters().front();
  const stages::Parameter& copy = stages[2]->parameters().front();
  BOOST_TEST(copy.name == embedding.name);
  BOOST_TEST((embedding.owned && embedding.owned_by_stage));
  BOOST_TEST((!copy.owned && !copy.owned_by_stage));
  BOOST_TEST(stages[0]->tied_gradient().data == embedding.gradient.data);
  BOOST_TEST(stages[2]->tied_gradient().data == copy.gradient.data);
  BOOST_TEST(!stages[1]->tied_gradient());

  // Both copies hold the same bits after updates, and only the owner's norm counts.
  for (int step = 1; step <= 2; ++step) pipeline.step({}, step, {random_tokens(8, 11, 5)});
  for (const auto field : {&stages::Parameter::weight, &stages::Parameter::gradient,
                           &stages::Parameter::exp_avg, &stages::Parameter::exp_avg_sq}) {
    BOOST_TEST(std::memcmp(test::opened(embedding.*field).data, test::opened(copy.*field).data,
                           (copy.*field).num_bytes()) == 0);
  }
  std::vector<double> norms(stages[2]->parameters().size(), -1.0);
  stages[2]->squared_norms(norms);
  BOOST_TEST(norms.front() == 0.0);
  BOOST_TEST(norms.back() > 0.0);
}

BOOST_AUTO_TEST_CASE(fresh_weights_do_not_depend_on_the_cut) {
  const auto device = test::make_test_device();
  Pipeline whole(cut(false, {3}, {0}), *device, 42);
  Pipeline split(cut(false, {1, 2}, {0, 1}), *device, 42);
  Pipeline other(cut(false, {3}, {0}), *device, 43);
  BOOST_TEST((whole.state() == split.state()));
  BOOST_TEST((whole.state() != other.state()));
  for (const stages::Parameter& p : whole.stages().front()->parameters()) {
    if (p.weight.shape.rank() != 1) continue;
    const tensor::Tensor weight = test::opened(p.weight);
    for (const float* x = weight.as<float>(); x != end_of(weight); ++x) BOOST_TEST(*x == 1.0f);
  }
}

BOOST_AUTO_TEST_CASE(decay_all_includes_norms) {
  const auto device = test::make_test_device();
  PipelineSpec spec = cut(false, {3}, {0});
  spec.decay_all = true;
  Pipeline pipeline(spec, *device, 1);
  for (const auto& p : pipeline.stages().front()->parameters())
    BOOST_TEST(!p.update.weight_decay.has_value(), p.name);
}

BOOST_AUTO_TEST_CASE(frozen_parameters_have_no_moments_and_no_norm) {
  const auto device = test::make_test_device();
  PipelineSpec spec = cut(false, {3}, {0});
  Pipeline all(spec, *device, 1);
  spec.model.groups = {{.match = "model.layers.[01].*", .update = {.frozen = true}}};
  Pipeline some(spec, *device, 1);
  const auto& stage = *some.stages().front();
  for (Pipeline* pipeline : {&all, &some}) pipeline->step({}, 1, {random_tokens(8, 11, 1)});
  std::vector<double> norms(stage.parameters().size(), -1.0);
  stage.squared_norms(norms);
  for (std::size_t i = 0; i < norms.size(); ++i) {
    const stages::Parameter& p = stage.parameters()[i];
    const bool frozen =
        p.name.find("layers.0") != p.name.npos || p.name.find("layers.1") != p.name.npos;
    BOOST_TEST(p.exp_avg.num_elements() == (frozen ? 0 : p.weight.num_elements()), p.name);
    BOOST_TEST(p.exp_avg_sq.num_elements() == p.exp_avg.num_elements());
    BOOST_TEST((norms[i] == 0.0) == frozen, p.name);
    // Its gradient is not computed, and no other one depends on that.
    std::vector<float> expected = values(all.stages().front()->parameters()[i].gradient);
    if (frozen) std::ranges::fill(expected, 0.0F);
    BOOST_TEST((values(p.gradient) == expected), p.name);
  }
  const auto before = all.stages().front()->allocated(), after = stage.allocated();
  BOOST_TEST(after.optimizer < before.optimizer / 2);
  BOOST_TEST(after.gradients == before.gradients);
}

BOOST_AUTO_TEST_SUITE_END()
