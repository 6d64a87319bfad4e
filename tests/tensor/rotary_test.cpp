// Frequencies of every type of rotary embedding: against what transformers gives, and against the
// formulas of the papers in double precision.

#include "tensor/device/rotary.h"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <numbers>
#include <random>
#include <vector>

#include "tests/support/seed.h"

namespace troupe::tensor {

BOOST_AUTO_TEST_SUITE(rotary_test)

namespace {

std::vector<float> frequencies_of(const Rotary& rotary, std::int64_t head_dim,
                                  std::int64_t length) {
  std::vector<float> inverse(static_cast<std::size_t>(rotary_dim(rotary, head_dim) / 2));
  inverse_frequencies(rotary, length, inverse);
  return inverse;
}

/// The formula of each type, written for one pair.
double reference_frequency(const Rotary& r, double head_dim, double length, double i) {
  const double original = static_cast<double>(r.original_max_position_embeddings);
  const auto plain = [&](double theta) { return std::exp(-2 * i / head_dim * std::log(theta)); };
  const double kept = plain(r.theta), changed = kept / r.factor;
  const double turns = original * kept / (2 * std::numbers::pi);  // in the original length
  switch (r.type) {
    case RotaryType::standard:
      return kept;
    case RotaryType::linear:
      return changed;
    case RotaryType::dynamic:
      if (length <= original) return kept;
      return plain(r.theta * std::pow(r.factor * length / original - r.factor + 1,
                                      head_dim / (head_dim - 2)));
    case RotaryType::llama3: {
      const double share = (turns - r.low_freq_factor) / (r.high_freq_factor - r.low_freq_factor);
      return std::lerp(changed, kept, std::clamp(share, 0.0, 1.0));
    }
    case RotaryType::longrope: {
      const auto& factors = length > original ? r.long_factor : r.short_factor;
      return kept / factors[static_cast<std::size_t>(i)];
    }
    case RotaryType::yarn: {
      const auto pair_of = [&](double turns_wanted) {
        return head_dim / 2 * std::log(original / (2 * std::numbers::pi * turns_wanted)) /
               std::log(r.theta);
      };
      double low = pair_of(r.beta_fast), high = pair_of(r.beta_slow);
      if (r.truncate) low = std::floor(low), high = std::ceil(high);
      low = std::max(low, 0.0), high = std::min(high, head_dim - 1);
      if (low == high) high += 0.001;
      return std::lerp(kept, changed, std::clamp((i - low) / (high - low), 0.0, 1.0));
    }
  }
  return 0;
}

/// LongRoPE of 12 elements of a head.
Rotary longrope() {
  return {.type = RotaryType::longrope,
          .dim = 12,
          .factor = 4,
          .original_max_position_embeddings = 1024,
          .short_factor = {1, 1.05, 1.25, 2.5, 3, 4.75},
          .long_factor = {1, 1.5, 4, 12.5, 40, 64}};
}

Rotary with_attention_factor(Rotary rotary, double factor) {
  rotary.attention_factor = factor;
  return rotary;
}

struct Golden {
  const char* name;
  Rotary rotary;
  std::int64_t head_dim, length;
  std::vector<float> inverse;
  double scaling = 1;
};

// LlamaRotaryEmbedding of transformers 5.23.0 with torch 2.15.0 on a CPU; parts of a head and
// LongRoPE by 5.24.0's Llama and Phi-3 with partial_rotary_factor.
const std::vector<Golden> kGolden = {
    {"default",
     {},
     16,
     48,
     {1.0f, 0.316227764f, 0.100000001f, 0.0316227786f, 0.00999999978f, 0.00316227786f,
      0.00100000005f, 0.000316227786f}},
    {"default, another theta",
     {.theta = 500000},
     12,
     48,
     {1.0f, 0.112246193f, 0.0125992084f, 0.00141421345f, 0.000158740062f, 1.78179798e-05f}},
    {"linear",
     {.type = RotaryType::linear, .factor = 2.5},
     16,
     48,
     {0.400000006f, 0.1264911f, 0.0399999991f, 0.0126491114f, 0.00399999972f, 0.00126491114f,
      0.000400000019f, 0.000126491112f}},
    {"dynamic, short",
     {.type = RotaryType::dynamic, .factor = 3, .original_max_position_embeddings = 64},
     16,
     64,
     {1.0f, 0.316227764f, 0.100000001f, 0.0316227786f, 0.00999999978f, 0.00316227786f,
      0.00100000005f, 0.000316227786f}},
    {"dynamic, long",
     {.type = RotaryType::dynamic, .factor = 3, .original_max_position_embeddings = 64},
     16,
     100,
     {1.0f, 0.27457723f, 0.0753926486f, 0.0207011048f, 0.00568405166f, 0.00156071107f,
      0.000428535714f, 0.000117666146f}},
    {"yarn of a short original",
     {.type = RotaryType::yarn, .factor = 4, .original_max_position_embeddings = 12},
     16,
     48,
     {1.0f, 0.079056941f, 0.0250000004f, 0.00790569466f, 0.00249999994f, 0.000790569466f,
      0.000250000012f, 7.90569466e-05f},
     1.138629436111989},
    {"yarn",
     {.type = RotaryType::yarn, .factor = 4, .original_max_position_embeddings = 4096},
     32,
     48,
     {1.0f, 0.562341332f, 0.316227764f, 0.177827939f, 0.100000001f, 0.0562341288f, 0.0282346234f,
      0.0139721958f, 0.00678571407f, 0.00321337907f, 0.00146820047f, 0.00063509983f,
      0.000250000012f, 0.000140585325f, 7.90569466e-05f, 4.44569851e-05f},
     1.138629436111989},
    {"yarn with every number",
     {.type = RotaryType::yarn,
      .factor = 40,
      .original_max_position_embeddings = 4096,
      .beta_fast = 16,
      .beta_slow = 2,
      .mscale = 1,
      .mscale_all_dim = 0.7,
      .truncate = false},
     32,
     48,
     {1.0f, 0.562341332f, 0.316227764f, 0.177827939f, 0.100000001f, 0.0562341288f, 0.0316227786f,
      0.0150961196f, 0.00579010462f, 0.00173821871f, 0.000123952457f, 4.44569851e-05f,
      2.49999994e-05f, 1.40585325e-05f, 7.90569447e-06f, 4.44569832e-06f},
     1.0879546075066122},
    {"yarn with an attention factor",
     {.type = RotaryType::yarn,
      .factor = 4,
      .original_max_position_embeddings = 4096,
      .attention_factor = 1.3},
     16,
     48,
     {1.0f, 0.316227764f, 0.100000001f, 0.025693506f, 0.00624999963f, 0.00138349656f,
      0.000250000012f, 7.90569466e-05f},
     1.3},
    {"llama3",
     {.type = RotaryType::llama3,
      .theta = 500000,
      .factor = 8,
      .original_max_position_embeddings = 8192},
     16,
     48,
     {1.0f, 0.193922758f, 0.0376060307f, 0.00729266508f, 0.000524846022f, 3.42810235e-05f,
      6.64786967e-06f, 1.28917316e-06f}},
    {"llama3 of a short original",
     {.type = RotaryType::llama3,
      .theta = 500000,
      .factor = 4,
      .original_max_position_embeddings = 16},
     16,
     48,
     {0.636619747f, 0.0484806895f, 0.00940150768f, 0.00182316627f, 0.000353553361f, 6.85620471e-05f,
      1.32957393e-05f, 2.57834631e-06f}},
    {"linear, of a half",
     {.type = RotaryType::linear, .dim = 8, .factor = 2.5},
     16,
     48,
     {0.400000006f, 0.0399999991f, 0.00399999972f, 0.000400000019f}},
    {"yarn of a half",
     {.type = RotaryType::yarn, .dim = 8, .factor = 4, .original_max_position_embeddings = 4096},
     16,
     48,
     {1.0f, 0.100000001f, 0.00624999963f, 0.000250000012f},
     1.138629436111989},
    {"llama3 of a half",
     {.type = RotaryType::llama3, .dim = 8, .factor = 8, .original_max_position_embeddings = 8192},
     16,
     48,
     {1.0f, 0.100000001f, 0.00999999978f, 0.000213607578f}},
    {"longrope, short",
     longrope(),
     16,
     1024,
     {1.0f, 0.205184266f, 0.0371327065f, 0.00400000019f, 0.000718144758f, 9.77176751e-05f},
     1.0954451150103321},
    {"longrope, long",
     longrope(),
     16,
     1025,
     {1.0f, 0.14362897f, 0.011603971f, 0.00079999998f, 5.38608547e-05f, 7.25248356e-06f},
     1.0954451150103321},
    {"longrope with an attention factor",
     with_attention_factor(longrope(), 1.25),
     16,
     7,
     {1.0f, 0.205184266f, 0.0371327065f, 0.00400000019f, 0.000718144758f, 9.77176751e-05f},
     1.25},
};

BOOST_AUTO_TEST_CASE(frequencies_are_those_of_transformers) {
  for (const Golden& golden : kGolden) {
    BOOST_TEST_CONTEXT(golden.name) {
      const std::vector<float> got = frequencies_of(golden.rotary, golden.head_dim, golden.length);
      BOOST_REQUIRE_EQUAL(got.size(), golden.inverse.size());
      for (std::size_t i = 0; i < got.size(); ++i)  // two roundings of a power, in two libraries
        BOOST_TEST(std::abs(got[i] - golden.inverse[i]) <= 2.5e-7f * golden.inverse[i],
                   i << ": " << got[i] << " " << golden.inverse[i]);
      BOOST_TEST(attention_scaling(golden.rotary) == static_cast<float>(golden.scaling));
      BOOST_TEST(check_rotary(golden.rotary, golden.head_dim).sentence == "");
    }
  }
}

BOOST_AUTO_TEST_CASE(frequencies_are_those_of_the_formulas) {
  const std::uint64_t seed = test::fresh_seed();
  std::mt19937_64 random(seed);
  const auto between = [&](double low, double high) {
    return std::exp(std::uniform_real_distribution(std::log(low), std::log(high))(random));
  };
  BOOST_TEST_CONTEXT("TROUPE_TEST_SEED=" << seed) {
    for (int i = 0; i < 400; ++i) {
      Rotary rotary{.type = static_cast<RotaryType>(i % 6),
                    .theta = between(100, 1e6),
                    .factor = between(1, 40),
                    .original_max_position_embeddings = static_cast<std::int64_t>(between(8, 8192)),
                    .low_freq_factor = between(0.5, 2),
                    .high_freq_factor = between(3, 8),
                    .beta_fast = between(8, 64),
                    .beta_slow = between(0.5, 4),
                    .truncate = i % 2 == 0};
      const auto head_dim = 2 * static_cast<std::int64_t>(between(4, 65));
      if (i % 4 == 0) rotary.dim = head_dim / 4 * 2;
      const std::int64_t dim = rotary_dim(rotary, head_dim);
      for (std::int64_t pair = 0; pair < dim / 2 && rotary.type == RotaryType::longrope; ++pair) {
        rotary.short_factor.push_back(between(1, 4));
        rotary.long_factor.push_back(between(1, 60));
      }
      const auto length = static_cast<std::int64_t>(between(1, 20000));
      BOOST_REQUIRE_EQUAL(check_rotary(rotary, head_dim).sentence, "");
      const std::vector<float> got = frequencies_of(rotary, head_dim, length);
      for (std::size_t pair = 0; pair < got.size(); ++pair) {
        const double expected =
            reference_frequency(rotary, static_cast<double>(dim), static_cast<double>(length),
                                static_cast<double>(pair));
        BOOST_TEST(std::abs(got[pair] - expected) <= 2e-5 * expected,
                   name_of(rotary.type) << ", pair " << pair << " of " << got.size() << ": "
                                        << got[pair] << " " << expected);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(only_dynamic_and_longrope_depend_on_the_length) {
  for (const Golden& golden : kGolden) {
    const bool differs = frequencies_of(golden.rotary, golden.head_dim, 1) !=
                         frequencies_of(golden.rotary, golden.head_dim, 2000);
    BOOST_TEST(differs == depends_on_length(golden.rotary), golden.name);
  }
}

BOOST_AUTO_TEST_CASE(types_have_names) {
  for (const char* name : {"default", "linear", "dynamic", "yarn", "llama3", "longrope"}) {
    RotaryType type{};
    BOOST_TEST(find_rotary_type(name, type));
    BOOST_TEST(name_of(type) == std::string(name));
  }
  RotaryType type = RotaryType::linear;
  BOOST_TEST(!find_rotary_type("su", type));
  BOOST_TEST((type == RotaryType::linear));
}

BOOST_AUTO_TEST_CASE(nonsense_is_refused_by_field) {
  const Rotary yarn{
      .type = RotaryType::yarn, .factor = 4, .original_max_position_embeddings = 4096};
  Rotary llama3 = yarn, dynamic = yarn;
  llama3.type = RotaryType::llama3;
  dynamic.type = RotaryType::dynamic;
  const double infinity = std::numeric_limits<double>::infinity();
  const auto refused = [](const char* field, Rotary rotary, auto change) {
    BOOST_TEST(check_rotary(rotary, 16).sentence == "");
    change(rotary);
    const std::string why = check_rotary(rotary, 16).sentence;
    BOOST_TEST(why.starts_with(field), field << ": " << why);
  };
  for (const double x : {0.5, -1.0, infinity, std::nan("")}) {
    refused("rope_theta", {}, [&](Rotary& r) { r.theta = x; });
    refused("rope_factor", yarn, [&](Rotary& r) { r.factor = x; });
  }
  for (const double x : {-1.0, infinity, std::nan("")}) {
    refused("rope_attention_factor", yarn, [&](Rotary& r) { r.attention_factor = x; });
    refused("rope_mscale ", yarn, [&](Rotary& r) { r.mscale = x; });
    refused("rope_mscale_all_dim", yarn, [&](Rotary& r) { r.mscale_all_dim = x; });
    refused("rope_beta_slow", yarn, [&](Rotary& r) { r.beta_slow = x; });
    refused("rope_beta_fast", yarn, [&](Rotary& r) { r.beta_fast = x; });
    refused("rope_low_freq_factor", llama3, [&](Rotary& r) { r.low_freq_factor = x; });
    refused("rope_high_freq_factor", llama3, [&](Rotary& r) { r.high_freq_factor = x; });
  }
  refused("rope_theta", yarn, [](Rotary& r) { r.theta = 1; });
  refused("rope_beta_fast", yarn, [](Rotary& r) { r.beta_fast = 0.5; });
  refused("rope_high_freq_factor", llama3, [](Rotary& r) { r.high_freq_factor = 1; });
  for (const Rotary& rotary : {yarn, llama3, dynamic})
    for (const std::int64_t x : {std::int64_t{0}, std::int64_t{-4}, std::int64_t{1} << 40})
      refused("rope_original_max_position_embeddings", rotary,
              [&](Rotary& r) { r.original_max_position_embeddings = x; });
  for (const double x : {0.0, -1.0, infinity, std::nan("")}) {
    refused("rope_short_factor", longrope(), [&](Rotary& r) { r.short_factor[2] = x; });
    refused("rope_long_factor", longrope(), [&](Rotary& r) { r.long_factor[5] = x; });
  }
  refused("rope_short_factor has 5 numbers", longrope(),
          [](Rotary& r) { r.short_factor.pop_back(); });
  refused("rope_long_factor has 6 numbers", longrope(), [](Rotary& r) {
    r.dim = 10;
    r.short_factor.pop_back();
  });
  refused("rope_attention_factor", longrope(), [](Rotary& r) { r.attention_factor = -1; });
  refused("rope_original_max_position_embeddings", longrope(),
          [](Rotary& r) { r.original_max_position_embeddings = 1; });
  for (const std::int64_t x : {-2, 1, 3, 18})
    refused("rope_dim", {}, [&](Rotary& r) { r.dim = x; });
  dynamic.dim = 2;
  BOOST_TEST(check_rotary(dynamic, 16).sentence.starts_with("rope_dim = 2"));
  dynamic.dim = 0;
  BOOST_TEST(check_rotary(dynamic, 2).sentence.starts_with("head_dim = 2"));
  BOOST_TEST(check_rotary({}, 15).sentence.starts_with("head_dim = 15"));
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::tensor
