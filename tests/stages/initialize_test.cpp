// Initial weights: their distribution by Megatron-LM's rules, and that each shard has its part of
// what one stage has.

#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <map>

#include "stages/decoder/stage/transformer_stage.h"
#include "tensor/values/random.h"
#include "tests/support/families.h"
#include "tests/support/test_device.h"

BOOST_AUTO_TEST_SUITE(initialize_test)

using namespace troupe;
using stages::Initializer;

namespace {

constexpr std::uint64_t kSeed = 5;
constexpr int kLayers = 8;

struct Kind {
  const char* name;
  Initializer initializer;
};
std::ostream& operator<<(std::ostream& out, const Kind& kind) {
  return out << kind.name;
}
const std::vector<Kind> kKinds = {{"normal", Initializer::normal},
                                  {"scaled_normal", Initializer::scaled_normal},
                                  {"xavier_uniform", Initializer::xavier_uniform}};

stages::ModelConfig model_of(const Kind& kind) {
  return {.hidden_size = 24,
          .intermediate_size = 36,
          .num_hidden_layers = kLayers,
          .num_attention_heads = 12,
          .num_key_value_heads = 3,
          .head_dim = 2,
          .vocab_size = 61,
          .initializer_range = 0.1,
          .initializer = kind.initializer};
}

/// Calls visit(parameter) for each initial parameter of a shard.
template <typename Visit>
void visit_weights(const Kind& kind, const stages::Sharding& sharding, const Visit& visit) {
  const auto device = test::make_test_device();
  const auto stage = stages::make_transformer_stage(
      {.model = model_of(kind),
       .chunks = {{.first_layer = 0, .end_layer = kLayers, .embedding = true, .head = true}},
       .sharding = sharding,
       .seq_len = 8,
       .training = false},
      *device);
  initialize(*stage, model_of(kind), kSeed, 2);
  for (const stages::Parameter& parameter : stage->parameters()) visit(parameter);
}

bool is_output_projection(const std::string& name) {
  return name.find("o_proj") != std::string::npos || name.find("down_proj") != std::string::npos;
}

/// The element `index` of a whole matrix.
float expected(const Kind& kind, const stages::Parameter& parameter, std::uint64_t index) {
  const tensor::Random random(kSeed, parameter.name);
  if (kind.initializer == Initializer::xavier_uniform) {
    const auto fans = static_cast<double>(parameter.whole_shape[0] + parameter.whole_shape[1]);
    return static_cast<float>(std::sqrt(6 / fans) * (2 * random.uniform(index) - 1));
  }
  const bool is_scaled =
      kind.initializer == Initializer::scaled_normal && is_output_projection(parameter.name);
  return static_cast<float>(0.1 / (is_scaled ? std::sqrt(2.0 * kLayers) : 1) *
                            random.normal(index));
}

}  // namespace

BOOST_DATA_TEST_CASE(weights_are_functions_of_the_whole_tensor_s_index,
                     boost::unit_test::data::make(kKinds), kind) {
  for (const int shards : {1, 2, 3, 4, 6}) {
    if (!stages::check_sharding(model_of(kind), shards).empty()) continue;
    for (int shard = 0; shard < shards; ++shard)
      visit_weights(kind, {.size = shards, .shard = shard}, [&](const stages::Parameter& p) {
        const auto& [row, rows, column, columns] = p.region;
        for (std::int64_t r = 0; r < rows; ++r)
          for (std::int64_t c = 0; c < columns; ++c) {
            const auto index = static_cast<std::uint64_t>(
                (row + r) * tensor::whole(p.whole_shape).columns + column + c);
            const float want = p.whole_shape.rank() == 1 ? 1 : expected(kind, p, index);
            const float got = test::opened(p.weight).as<float>()[r * columns + c];
            BOOST_REQUIRE_MESSAGE(got == want, p.name << "[" << row + r << ", " << column + c
                                                      << "] of " << shards << " shards: " << got
                                                      << " instead of " << want);
          }
      });
  }
}

// Of norms that multiply by 1 + weight.
BOOST_AUTO_TEST_CASE(every_norm_begins_as_the_identity) {
  for (const char* family : {"gemma", "gemma3_text", "qwen3", "olmo2"}) {
    const stages::ModelConfig model = test::as_family(model_of(kKinds[0]), family);
    const bool adds_one = traits_of(model.kind).norm_form == stages::NormForm::one_plus;
    const auto device = test::make_test_device();
    const auto stage = stages::make_transformer_stage(
        {.model = model,
         .chunks = {{.first_layer = 0, .end_layer = kLayers, .embedding = true, .head = true}},
         .seq_len = 8,
         .training = false},
        *device);
    initialize(*stage, model, kSeed, 2);
    for (const stages::Parameter& p : stage->parameters()) {
      if (p.weight.shape.rank() > 1) continue;
      const float* w = test::opened(p.weight).as<float>();
      for (std::int64_t i = 0; i < p.weight.num_elements(); ++i)
        BOOST_REQUIRE(w[i] == (adds_one ? 0 : 1));
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()
