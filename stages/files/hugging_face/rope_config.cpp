#include "stages/files/hugging_face/rope_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace troupe::stages {
namespace {

using nlohmann::json;
using tensor::Rotary;
using tensor::RotaryType;

constexpr const char* kParameters = "rope_parameters";
constexpr const char* kScaling = "rope_scaling";
constexpr const char* kType = "rope_type";
constexpr const char* kOldType = "type";
constexpr const char* kTheta = "rope_theta";
constexpr const char* kFactor = "factor";
constexpr const char* kOriginal = "original_max_position_embeddings";
constexpr const char* kTruncate = "truncate";
constexpr const char* kAttention = "attention_factor";
constexpr const char* kPartial = "partial_rotary_factor";
constexpr double kDefaultTheta = 10000.0;

/// Numbers without which a type has no meaning.
constexpr std::array<std::string_view, 3> kNeeded{kFactor, "low_freq_factor", "high_freq_factor"};

RotaryType type_of(ConfigFields& rope) {
  const std::string old = rope.get<std::string>(kOldType, "default");
  const std::string name = rope.get(kType, old);
  RotaryType type = RotaryType::standard;
  if (!tensor::find_rotary_type(name, type))
    rope.refuse(rope.value(kType).is_null() ? kOldType : kType,
                "expected default, linear, dynamic, yarn or llama3");
  return type;
}

/// The one beside the object counts before the one in it.
std::int64_t original_of(ConfigFields& fields, ConfigFields& rope, RotaryType type,
                         std::int64_t positions) {
  if (!tensor::reads(type, kOriginal)) return 0;
  const auto within = rope.find<std::int64_t>(kOriginal);
  if (type == RotaryType::dynamic) return positions;
  return fields.find<std::int64_t>(kOriginal).value_or(within.value_or(positions));
}

/// The number of this name; in YaRN the factor may follow from the lengths.
std::optional<double> number_of(ConfigFields& rope, const std::string& name, const Rotary& rotary,
                                std::int64_t positions) {
  const auto given = rope.find<double>(name);
  if (given || std::ranges::find(kNeeded, name) == kNeeded.end()) return given;
  if (rotary.type == RotaryType::yarn)
    return static_cast<double>(positions) /
           static_cast<double>(rotary.original_max_position_embeddings);
  rope.refuse(name, fmt::format("{} needs it", tensor::name_of(rotary.type)));
}

}  // namespace

Rotary read_rope(ConfigFields& fields, std::int64_t positions) {
  const json& parameters = fields.value(kParameters);
  const json& scaling = fields.value(kScaling);
  const json& chosen = scaling.empty() ? parameters : scaling;  // null is empty too
  const std::string name = scaling.empty() ? kParameters : kScaling;
  Rotary rotary{.theta = fields.find<double>(kTheta).value_or(kDefaultTheta)};
  if (chosen.is_null()) return rotary;
  if (!chosen.is_object()) fields.refuse(name, "expected an object");
  for (const json& value : chosen)
    if (value.is_object()) fields.refuse(name, "Troupe rotates all layers alike");
  ConfigFields rope(chosen, fields.place() + ": " + name);
  rotary.theta = rope.find<double>(kTheta).value_or(rotary.theta);
  rotary.type = type_of(rope);
  if (rope.find<double>(kPartial).value_or(1) != 1)
    rope.refuse(kPartial, "Troupe rotates whole heads");
  // transformers multiplies queries and keys by it, and takes only null for what the paper
  // suggests.
  if (rotary.type == RotaryType::yarn && rope.find<double>(kAttention).value_or(1) == 0)
    rope.refuse(kAttention, "every token would see all others alike; null: as the paper suggests");
  rotary.original_max_position_embeddings = original_of(fields, rope, rotary.type, positions);
  for (const auto& [field, member] : tensor::kRotaryNumbers)
    if (tensor::reads(rotary.type, field))
      if (const auto given = number_of(rope, std::string(field), rotary, positions))
        rotary.*member = *given;
  if (tensor::reads(rotary.type, kTruncate)) rotary.truncate = rope.get(kTruncate, true);
  return rotary;
}

json rope_scaling_of(const Rotary& rotary) {
  if (rotary.type == RotaryType::standard) return nullptr;
  json scaling = {{kType, tensor::name_of(rotary.type)}};
  for (const auto& [field, member] : tensor::kRotaryNumbers)
    if (tensor::reads(rotary.type, field) && rotary.*member != 0)  // 0: not given
      scaling[std::string(field)] = rotary.*member;
  // Dynamic takes max_position_embeddings, which is the same.
  if (tensor::reads(rotary.type, kOriginal) && rotary.type != RotaryType::dynamic)
    scaling[kOriginal] = rotary.original_max_position_embeddings;
  if (tensor::reads(rotary.type, kTruncate)) scaling[kTruncate] = rotary.truncate;
  return scaling;
}

}  // namespace troupe::stages
