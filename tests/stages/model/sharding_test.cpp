#include "stages/model/sharding.h"

#include <boost/test/unit_test.hpp>
#include <map>
#include <numeric>

BOOST_AUTO_TEST_SUITE(sharding_test)

using namespace troupe::stages;
using troupe::tensor::Region;

namespace {

ModelConfig model_of(std::int64_t kv_heads, std::int64_t vocab_size) {
  return {.hidden_size = 24,
          .intermediate_size = 36,
          .num_hidden_layers = 2,
          .num_attention_heads = 12,
          .num_key_value_heads = kv_heads,
          .head_dim = 2,
          .vocab_size = vocab_size};
}

/// How many of the regions hold each element of the parameter.
std::vector<int> holders(const ParameterInfo& info, const std::vector<Region>& regions) {
  const Region all = troupe::tensor::whole(info.shape);
  std::vector<int> count(static_cast<std::size_t>(all.num_elements()));
  for (const Region& region : regions)
    for (std::int64_t row = region.row; row < region.row + region.rows; ++row)
      for (std::int64_t column = region.column; column < region.column + region.columns; ++column)
        ++count.at(static_cast<std::size_t>(row * all.columns + column));
  return count;
}

}  // namespace

BOOST_AUTO_TEST_CASE(owned_regions_hold_every_element_once) {
  for (const int shards : {1, 2, 3, 4, 6, 12})
    for (const auto& [kv_heads, vocab] : {std::pair{12, 48}, {3, 49}, {2, 5}, {1, 7}}) {
      const ModelConfig model = model_of(kv_heads, vocab);
      if (!check_sharding(model, shards).empty()) continue;
      for (const ParameterInfo& info : parameters_of(model))
        for (const int count : holders(info, owned_regions(info, model, {.size = shards})))
          BOOST_REQUIRE_MESSAGE(count == 1, info.name << " with tp " << shards);
    }
}

BOOST_AUTO_TEST_CASE(shards_divide_gpt2_s_weights_and_biases_alike) {
  ModelConfig model = model_of(12, 49);
  model.kind = ModelKind::gpt2;
  model.max_position_embeddings = 5;
  for (const int shards : {1, 2, 3, 4})
    for (const ParameterInfo& info : parameters_of(model))
      for (const int count : holders(info, owned_regions(info, model, {.size = shards})))
        BOOST_REQUIRE_MESSAGE(count == 1, info.name << " with tp " << shards);
  std::map<std::string, Region> regions;
  std::map<std::string, troupe::tensor::Shape> shapes;
  for (const ParameterInfo& info : parameters_of(model)) {
    regions[info.name] = region_of(info, model, {.size = 4, .shard = 3});
    shapes[info.name] = local_shape(info, model, {.size = 4, .shard = 3});
  }
  const std::string layer = "transformer.h.1.";
  BOOST_TEST((regions.at(layer + "attn.c_attn.k.weight") == Region{18, 6, 0, 24}));
  BOOST_TEST((regions.at(layer + "attn.c_attn.k.bias") == Region{18, 6, 0, 1}));
  BOOST_TEST((shapes.at(layer + "attn.c_attn.k.bias") == troupe::tensor::Shape{6}));
  BOOST_TEST((regions.at(layer + "mlp.c_fc.bias") == Region{27, 9, 0, 1}));
  BOOST_TEST((regions.at(layer + "mlp.c_proj.weight") == Region{0, 24, 27, 9}));
  BOOST_TEST((regions.at(layer + "mlp.c_proj.bias") == Region{0, 24, 0, 1}));
  BOOST_TEST((regions.at("transformer.wpe.weight") == Region{0, 5, 0, 24}));
}

BOOST_AUTO_TEST_CASE(a_shard_has_whole_heads_and_its_part_of_the_feed_forward) {
  const ModelConfig model = model_of(4, 48);
  std::map<std::string, Region> regions;
  for (const ParameterInfo& info : parameters_of(model))
    regions[info.name] = region_of(info, model, {.size = 4, .shard = 3});
  const auto in_layer = [&](const std::string& name) {
    return regions.at("model.layers.1." + name + ".weight");
  };
  BOOST_TEST((in_layer("self_attn.q_proj") == Region{18, 6, 0, 24}));
  BOOST_TEST((in_layer("self_attn.k_proj") == Region{6, 2, 0, 24}));
  BOOST_TEST((in_layer("self_attn.o_proj") == Region{0, 24, 18, 6}));
  BOOST_TEST((in_layer("mlp.up_proj") == Region{27, 9, 0, 24}));
  BOOST_TEST((in_layer("mlp.down_proj") == Region{0, 24, 27, 9}));
  BOOST_TEST((in_layer("input_layernorm") == Region{0, 24, 0, 1}));
  BOOST_TEST((regions.at("lm_head.weight") == Region{36, 12, 0, 24}));
}

BOOST_AUTO_TEST_CASE(shards_beyond_the_kv_heads_share_them_and_the_first_owns) {
  const ModelConfig model = model_of(2, 48);
  const ParameterInfo k = parameters_of(model)[3];
  BOOST_TEST(k.name == "model.layers.0.self_attn.k_proj.weight");
  for (const int shard : {0, 1, 2, 3}) {
    const Sharding sharding{.size = 4, .shard = shard};
    BOOST_TEST((region_of(k, model, sharding) == Region{shard / 2 * 2, 2, 0, 24}));
    BOOST_TEST(owns_region(k, model, sharding) == (shard % 2 == 0));
  }
}

BOOST_AUTO_TEST_CASE(the_vocabulary_is_padded_at_its_end) {
  const ModelConfig model = model_of(4, 13);
  const ParameterInfo table = parameters_of(model).front();
  const Sharding last{.size = 4, .shard = 3};
  BOOST_TEST((region_of(table, model, last) == Region{12, 1, 0, 24}));
  BOOST_TEST((local_shape(table, model, last) == troupe::tensor::Shape{4, 24}));
  // A shard may hold padding alone.
  const ModelConfig tiny = model_of(4, 5);
  const ParameterInfo small = parameters_of(tiny).front();
  BOOST_TEST((region_of(small, tiny, last) == Region{5, 0, 0, 24}));
  BOOST_TEST((local_shape(small, tiny, last) == troupe::tensor::Shape{2, 24}));
}

BOOST_AUTO_TEST_CASE(refuses_what_does_not_divide_with_the_nearest_choice) {
  BOOST_TEST(check_sharding(model_of(12, 48), 5) ==
             "num_attention_heads = 12 must be divisible by tp = 5; nearest: tp = 4");
  BOOST_TEST(check_sharding(model_of(3, 48), 4) ==
             "num_key_value_heads = 3 must divide, or be divisible by, tp = 4; nearest: tp = 3");
  // However far away the nearest choice is.
  BOOST_TEST(check_sharding(model_of(4, 48), 1024) ==
             "num_attention_heads = 12 must be divisible by tp = 1024; nearest: tp = 12");
  ModelConfig odd = model_of(12, 48);
  odd.intermediate_size = 37;
  BOOST_TEST(check_sharding(odd, 2) ==
             "intermediate_size = 37 must be divisible by tp = 2; nearest: tp = 1");
}

BOOST_AUTO_TEST_CASE(intersections_are_rectangles_or_nothing) {
  const Region a{.row = 2, .rows = 4, .column = 0, .columns = 3};
  BOOST_TEST(
      (intersection(a, {.row = 4, .rows = 9, .column = 2, .columns = 9}) == Region{4, 2, 2, 1}));
  BOOST_TEST((intersection(a, {.row = 6, .rows = 9, .column = 0, .columns = 3}) == Region{}));
  BOOST_TEST((intersection(a, a) == a));
}

BOOST_AUTO_TEST_SUITE_END()
