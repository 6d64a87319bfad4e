#include "tensor/device/rotary.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

#include "tensor/errors/error.h"

namespace troupe::tensor {
namespace {

constexpr std::array kTypeNames{
    std::pair{RotaryType::standard, "default"}, std::pair{RotaryType::linear, "linear"},
    std::pair{RotaryType::dynamic, "dynamic"},  std::pair{RotaryType::yarn, "yarn"},
    std::pair{RotaryType::llama3, "llama3"},    std::pair{RotaryType::longrope, "longrope"}};

// Below, head_dim is R: what of a head turns.

/// inverse[i] = base^(-2i / head_dim).
void powers_of(float base, std::span<float> inverse) {
  const auto head_dim = static_cast<float>(2 * inverse.size());
  for (std::size_t i = 0; i < inverse.size(); ++i)
    inverse[i] = 1.0f / std::pow(base, static_cast<float>(2 * i) / head_dim);
}

/// The theta of a sequence that is longer than the model's positions.
float dynamic_theta(const Rotary& rotary, std::int64_t length, std::size_t head_dim) {
  const auto dim = static_cast<double>(head_dim);
  const float longest = static_cast<float>(rotary.factor) * static_cast<float>(length) /
                        static_cast<float>(rotary.original_max_position_embeddings);
  const float growth = longest - static_cast<float>(rotary.factor - 1);
  return static_cast<float>(rotary.theta) * std::pow(growth, static_cast<float>(dim / (dim - 2)));
}

/// The pair, as a real number, that makes so many turns in a sequence of the original length.
double pair_with_turns(const Rotary& rotary, double turns, std::size_t head_dim) {
  const auto length = static_cast<double>(rotary.original_max_position_embeddings);
  return static_cast<double>(head_dim) * std::log(length / (turns * 2 * std::numbers::pi)) /
         (2 * std::log(rotary.theta));
}

/// Pairs below the first bound keep their frequency, those above the second are interpolated.
std::pair<double, double> yarn_bounds(const Rotary& rotary, std::size_t head_dim) {
  double low = pair_with_turns(rotary, rotary.beta_fast, head_dim);
  double high = pair_with_turns(rotary, rotary.beta_slow, head_dim);
  if (rotary.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, static_cast<double>(head_dim) - 1);
  return {low, low == high ? high + 0.001 : high};
}

void yarn_frequencies(const Rotary& rotary, std::span<float> inverse) {
  const std::size_t head_dim = 2 * inverse.size();
  const auto [low, high] = yarn_bounds(rotary, head_dim);
  const auto theta = static_cast<float>(rotary.theta), factor = static_cast<float>(rotary.factor);
  for (std::size_t i = 0; i < inverse.size(); ++i) {
    const float exponent = static_cast<float>(2 * i) / static_cast<float>(head_dim);
    const float wavelength = std::pow(theta, exponent);
    const float ramp =
        (static_cast<float>(i) - static_cast<float>(low)) / static_cast<float>(high - low);
    const float kept = 1 - std::clamp(ramp, 0.0f, 1.0f);
    inverse[i] = 1.0f / (factor * wavelength) * (1 - kept) + 1.0f / wavelength * kept;
  }
}

/// What one frequency becomes.
float llama3_frequency(const Rotary& rotary, float frequency) {
  const auto length = static_cast<double>(rotary.original_max_position_embeddings);
  const double low = rotary.low_freq_factor, high = rotary.high_freq_factor;
  const float wavelength = static_cast<float>(2 * std::numbers::pi) / frequency;
  const float interpolated = frequency / static_cast<float>(rotary.factor);
  if (wavelength > static_cast<float>(length / low)) return interpolated;
  if (wavelength < static_cast<float>(length / high)) return frequency;
  const float smooth = (static_cast<float>(length) / wavelength - static_cast<float>(low)) /
                       static_cast<float>(high - low);
  return (1 - smooth) * frequency / static_cast<float>(rotary.factor) + smooth * frequency;
}

void longrope_frequencies(const Rotary& rotary, std::int64_t length, std::span<float> inverse) {
  const bool is_longer = length > rotary.original_max_position_embeddings;
  const std::vector<double>& factors = is_longer ? rotary.long_factor : rotary.short_factor;
  const auto head_dim = static_cast<float>(2 * inverse.size());
  for (std::size_t i = 0; i < inverse.size(); ++i) {
    const float wavelength =
        std::pow(static_cast<float>(rotary.theta), static_cast<float>(2 * i) / head_dim);
    inverse[i] = 1.0f / (static_cast<float>(factors[i]) * wavelength);
  }
}

/// LongRoPE's scaling of cos and sin.
double longrope_scaling(const Rotary& rotary) {
  if (rotary.factor <= 1) return 1;
  const auto original = static_cast<double>(rotary.original_max_position_embeddings);
  return std::sqrt(1 + std::log(rotary.factor) / std::log(original));
}

/// YaRN's scaling of scores for a factor (equation 22), times mscale.
double yarn_scaling(double factor, double mscale) {
  return factor <= 1 ? 1.0 : 0.1 * mscale * std::log(factor) + 1.0;
}

FieldFault check_yarn(const Rotary& r) {
  if (!(r.theta > 1))
    return {&r.theta, fmt::format("rope_theta = {} must be above 1 for yarn", r.theta)};
  if (!(r.beta_slow > 0 && std::isfinite(r.beta_slow)))
    return {&r.beta_slow,
            fmt::format("rope_beta_slow = {} must be above 0; usual: 1", r.beta_slow)};
  if (!(r.beta_fast >= r.beta_slow && std::isfinite(r.beta_fast)))
    return {&r.beta_fast,
            fmt::format("rope_beta_fast = {} must be at least rope_beta_slow = {}; usual: 32",
                        r.beta_fast, r.beta_slow)};
  for (const auto& [name, field] :
       {std::pair("rope_attention_factor", &r.attention_factor),
        std::pair("rope_mscale", &r.mscale), std::pair("rope_mscale_all_dim", &r.mscale_all_dim)})
    if (!(*field >= 0 && std::isfinite(*field)))
      return {field,
              fmt::format("{} = {} must not be negative; 0: as the paper suggests", name, *field)};
  return {};
}

FieldFault check_longrope(const Rotary& r, std::int64_t dim) {
  for (const auto& [name, factors] : {std::pair("rope_short_factor", &r.short_factor),
                                      std::pair("rope_long_factor", &r.long_factor)}) {
    if (std::ssize(*factors) != dim / 2)
      return {factors, fmt::format("{} has {} numbers; longrope needs {}, one for each pair of the "
                                   "{} elements that turn",
                                   name, factors->size(), dim / 2, dim)};
    for (const double factor : *factors)
      if (!(factor > 0 && std::isfinite(factor)))
        return {factors, fmt::format("{} has {}; each number must be above 0", name, factor)};
  }
  if (!(r.attention_factor >= 0 && std::isfinite(r.attention_factor)))
    return {&r.attention_factor, fmt::format("rope_attention_factor = {} must not be negative; 0: "
                                             "as the paper suggests",
                                             r.attention_factor)};
  if (r.attention_factor == 0 && r.factor > 1 && r.original_max_position_embeddings < 2)
    return {&r.original_max_position_embeddings,
            "rope_original_max_position_embeddings = 1 must be at least 2 for longrope"};
  return {};
}

FieldFault check_llama3(const Rotary& r) {
  if (!(r.low_freq_factor > 0 && std::isfinite(r.low_freq_factor)))
    return {&r.low_freq_factor,
            fmt::format("rope_low_freq_factor = {} must be above 0; usual: 1", r.low_freq_factor)};
  if (!(r.high_freq_factor > r.low_freq_factor && std::isfinite(r.high_freq_factor)))
    return {
        &r.high_freq_factor,
        fmt::format("rope_high_freq_factor = {} must be above rope_low_freq_factor = {}; usual: 4",
                    r.high_freq_factor, r.low_freq_factor)};
  return {};
}

}  // namespace

const char* name_of(RotaryType type) {
  const auto* found =
      std::ranges::find(kTypeNames, type, [](const auto& entry) { return entry.first; });
  TROUPE_ASSERT(found != kTypeNames.end());
  return found->second;
}

bool find_rotary_type(std::string_view name, RotaryType& type) {
  for (const auto& [candidate, its_name] : kTypeNames) {
    if (name != its_name) continue;
    type = candidate;
    return true;
  }
  return false;
}

bool reads(RotaryType type, std::string_view field) {
  if (field == "theta" || field == "dim") return true;
  if (field == "factor") return type != RotaryType::standard;
  if (field == "original_max_position_embeddings")
    return type != RotaryType::standard && type != RotaryType::linear;
  if (field == "short_factor" || field == "long_factor") return type == RotaryType::longrope;
  if (field == "attention_factor" && type == RotaryType::longrope) return true;
  const bool is_of_llama3 = field == "low_freq_factor" || field == "high_freq_factor";
  return type == (is_of_llama3 ? RotaryType::llama3 : RotaryType::yarn);
}

FieldFault check_rotary(const Rotary& r, const std::int64_t& head_dim) {
  constexpr std::int64_t kMostPositions = std::int64_t{1} << 31;
  const std::int64_t dim = rotary_dim(r, head_dim);
  if (r.dim != 0 && (r.dim < 2 || r.dim % 2 != 0 || r.dim > head_dim))
    return {&r.dim, fmt::format("rope_dim = {} must be even, from 2 to head_dim = {}; 0: all",
                                r.dim, head_dim)};
  if (dim % 2 != 0)
    return {&head_dim,
            fmt::format("head_dim = {} must be even, as rotary embedding turns pairs; nearest: {}",
                        head_dim, head_dim + 1)};
  if (!(r.theta >= 1 && std::isfinite(r.theta)))
    return {&r.theta, fmt::format("rope_theta = {} must be at least 1; usual: 10000", r.theta)};
  if (r.type == RotaryType::standard) return {};
  if (!(r.factor >= 1 && std::isfinite(r.factor)))
    return {&r.factor, fmt::format("rope_factor = {} must be at least 1; usual: 2 to 8", r.factor)};
  if (r.type == RotaryType::linear) return {};
  const std::int64_t original = r.original_max_position_embeddings;
  if (original < 1 || original > kMostPositions)
    return {&r.original_max_position_embeddings,
            fmt::format("rope_original_max_position_embeddings = {} must lie between 1 and {}",
                        original, kMostPositions)};
  if (r.type == RotaryType::dynamic && dim < 4)
    return {r.dim > 0 ? &r.dim : &head_dim,
            fmt::format("{} = {} must be at least 4 for rope_type = 'dynamic'",
                        r.dim > 0 ? "rope_dim" : "head_dim", dim)};
  if (r.type == RotaryType::yarn) return check_yarn(r);
  if (r.type == RotaryType::longrope) return check_longrope(r, dim);
  return r.type == RotaryType::llama3 ? check_llama3(r) : FieldFault();
}

void inverse_frequencies(const Rotary& rotary, std::int64_t length, std::span<float> inverse) {
  switch (rotary.type) {
    case RotaryType::standard:
      return powers_of(static_cast<float>(rotary.theta), inverse);
    case RotaryType::linear:
      powers_of(static_cast<float>(rotary.theta), inverse);
      for (float& frequency : inverse) frequency /= static_cast<float>(rotary.factor);
      return;
    case RotaryType::dynamic: {
      const bool is_longer = length > rotary.original_max_position_embeddings;
      return powers_of(is_longer ? dynamic_theta(rotary, length, 2 * inverse.size())
                                 : static_cast<float>(rotary.theta),
                       inverse);
    }
    case RotaryType::yarn:
      return yarn_frequencies(rotary, inverse);
    case RotaryType::llama3:
      powers_of(static_cast<float>(rotary.theta), inverse);
      for (float& frequency : inverse) frequency = llama3_frequency(rotary, frequency);
      return;
    case RotaryType::longrope:
      return longrope_frequencies(rotary, length, inverse);
  }
}

float attention_scaling(const Rotary& rotary) {
  if (rotary.type != RotaryType::yarn && rotary.type != RotaryType::longrope) return 1;
  if (rotary.attention_factor > 0) return static_cast<float>(rotary.attention_factor);
  if (rotary.type == RotaryType::longrope) return static_cast<float>(longrope_scaling(rotary));
  if (rotary.mscale > 0 && rotary.mscale_all_dim > 0)
    return static_cast<float>(yarn_scaling(rotary.factor, rotary.mscale) /
                              yarn_scaling(rotary.factor, rotary.mscale_all_dim));
  return static_cast<float>(yarn_scaling(rotary.factor, 1));
}

}  // namespace troupe::tensor
