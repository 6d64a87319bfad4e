#include "stages/files/hugging_face/rope_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

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
constexpr const char* kLocalTheta = "rope_local_base_freq";
constexpr const char* kFactor = "factor";
constexpr const char* kOriginal = "original_max_position_embeddings";
constexpr const char* kTruncate = "truncate";
constexpr const char* kAttention = "attention_factor";
constexpr const char* kPartial = "partial_rotary_factor";
constexpr const char* kFull = "full_attention";
constexpr const char* kSliding = "sliding_attention";

/// Numbers without which a type has no meaning.
constexpr std::array<std::string_view, 3> kNeeded{kFactor, "low_freq_factor", "high_freq_factor"};
/// Lists of numbers of longrope.
constexpr std::array kFactors{std::pair("short_factor", &Rotary::short_factor),
                              std::pair("long_factor", &Rotary::long_factor)};

/// LongRoPE also by its older names.
RotaryType type_of(ConfigFields& rope, ModelKind kind) {
  const bool has_longrope = traits_of(kind).has_longrope;
  const std::string old = rope.get<std::string>(kOldType, "default");
  const std::string name = rope.get(kType, old);
  if (has_longrope && (name == "su" || name == "yarn")) return RotaryType::longrope;
  RotaryType type = RotaryType::standard;
  const bool is_known = tensor::find_rotary_type(name, type);
  const bool is_allowed = has_longrope
                              ? type == RotaryType::standard || type == RotaryType::longrope
                              : type != RotaryType::longrope;
  if (!is_known || !is_allowed)
    rope.refuse(rope.value(kType).is_null() ? kOldType : kType,
                has_longrope ? "expected default or longrope"
                             : "expected default, linear, dynamic, yarn or llama3");
  return type;
}

/// The one beside the object counts before the one in it.
std::int64_t original_of(ConfigFields& fields, ConfigFields& rope, RotaryType type,
                         std::int64_t beside, std::int64_t positions) {
  if (!tensor::reads(type, kOriginal)) return 0;
  const auto within = rope.find<std::int64_t>(kOriginal);
  if (type == RotaryType::dynamic) return positions;
  const std::int64_t otherwise = beside > 0 ? beside : within.value_or(positions);
  return fields.find<std::int64_t>(kOriginal).value_or(otherwise);
}

/// The number of this name; in YaRN and LongRoPE the factor may follow from the lengths.
std::optional<double> number_of(ConfigFields& rope, const std::string& name, const Rotary& rotary,
                                std::int64_t positions) {
  const auto given = rope.find<double>(name);
  if (given || std::ranges::find(kNeeded, name) == kNeeded.end()) return given;
  const double longer =
      static_cast<double>(positions) / static_cast<double>(rotary.original_max_position_embeddings);
  if (rotary.type == RotaryType::yarn) return longer;
  if (rotary.type == RotaryType::longrope) return std::max(1.0, longer);
  rope.refuse(name, fmt::format("{} needs it", tensor::name_of(rotary.type)));
}

/// Fills the rotary embedding from its object in a config.json.
void read_rope_object(ConfigFields& fields, ConfigFields& rope, const RopeRules& rules,
                      const ModelConfig& model, Rotary& rotary) {
  rotary.theta = rope.find<double>(kTheta).value_or(rotary.theta);
  rotary.type = type_of(rope, model.kind);
  if (!rules.turns_parts && rope.find<double>(kPartial).value_or(1) != 1)
    rope.refuse(kPartial, "Troupe rotates whole heads");
  // transformers multiplies queries and keys by it, and takes only null for what the paper
  // suggests.
  if (rotary.type == RotaryType::yarn && rope.find<double>(kAttention).value_or(1) == 0)
    rope.refuse(kAttention, "every token would see all others alike; null: as the paper suggests");
  const std::int64_t positions = model.max_position_embeddings;
  rotary.original_max_position_embeddings =
      original_of(fields, rope, rotary.type, rules.original, positions);
  for (const auto& [field, member] : tensor::kRotaryNumbers)
    if (tensor::reads(rotary.type, field))
      if (const auto given = number_of(rope, std::string(field), rotary, positions))
        rotary.*member = *given;
  if (tensor::reads(rotary.type, kTruncate)) rotary.truncate = rope.get(kTruncate, true);
}

/// An object for each type of layer; null stands for one without fields.
void read_by_layer(ConfigFields& fields, const RopeRules& rules, ModelConfig& model) {
  const json& parameters = fields.value(kParameters);
  const json& scaling = fields.value(kScaling);
  const json none = json::object();
  model.local_rotary->theta = fields.find<double>(kLocalTheta).value_or(model.local_rotary->theta);
  if (!parameters.is_null()) {
    if (!parameters.is_object()) fields.refuse(kParameters, "expected an object");
    for (const auto& [name, value] : parameters.items())
      if ((name != kFull && name != kSliding) || !(value.is_object() || value.is_null()))
        fields.refuse(kParameters, fmt::format("expected objects {} and {}", kFull, kSliding));
  }
  const auto object_of = [&](const char* type) -> const json& {
    const bool is_there =
        parameters.is_object() && parameters.contains(type) && !parameters[type].is_null();
    return is_there ? parameters[type] : none;
  };
  // Where there is no rope_parameters, transformers begins with this, before which the older name
  // of the type in rope_scaling does not count.
  json full = parameters.is_null() ? json{{kType, "default"}} : object_of(kFull);
  if (scaling.is_object()) full.update(scaling);
  ConfigFields rope(full, fields.place() + ": " + (parameters.is_null() ? kScaling : kParameters));
  read_rope_object(fields, rope, rules, model, model.rotary);
  ConfigFields local(object_of(kSliding),
                     fmt::format("{}: {}: {}", fields.place(), kParameters, kSliding));
  read_rope_object(fields, local, rules, model, *model.local_rotary);
  if (model.local_rotary->type != RotaryType::standard) local.refuse(kType, "expected default");
}

}  // namespace

void read_rope_parts(ConfigFields& rope, const ModelConfig& model, Rotary& rotary) {
  if (const auto part = rope.find<double>(kPartial); part && *part != 1) {
    const double turning = static_cast<double>(model.head_dim) * *part;
    if (!(turning >= 2 && *part < 1))
      rope.refuse(kPartial,
                  fmt::format("at least 2 of the {} elements of a head turn, and no more than all; "
                              "expected a number up to 1",
                              model.head_dim));
    rotary.dim = static_cast<std::int64_t>(turning);
  }
  for (const auto& [name, member] : kFactors) {
    const json& list = rope.value(name);
    if (list.is_null() && rotary.type != RotaryType::longrope) continue;
    if (!list.is_array()) rope.refuse(name, "longrope needs a list of numbers");
    (rotary.*member).clear();
    for (const json& number : list) {
      if (!number.is_number()) rope.refuse(name, "longrope needs a list of numbers");
      (rotary.*member).push_back(number.get<double>());
    }
  }
  if (rotary.type != RotaryType::longrope) rotary.short_factor = rotary.long_factor = {};
}

json rope_parts_of(const ModelConfig& model) {
  json parts = json::object();
  const Rotary& rotary = model.rotary;
  if (rotary.dim > 0) {
    const auto whole = static_cast<double>(model.head_dim), part = static_cast<double>(rotary.dim);
    double factor = part / whole;
    if (whole * factor < part) factor = std::nextafter(factor, 1.0);  // which readers round down
    parts[kPartial] = factor;
  }
  if (rotary.type == RotaryType::longrope)
    for (const auto& [name, member] : kFactors) parts[name] = rotary.*member;
  return parts;
}

void read_rope(ConfigFields& fields, const RopeRules& rules, const ModelConfig& defaults,
               ModelConfig& model) {
  model.rotary = defaults.rotary;
  model.local_rotary = defaults.local_rotary;
  Rotary& rotary = model.rotary;
  rotary.theta = fields.find<double>(kTheta).value_or(rotary.theta);
  if (rules.is_by_layer) return read_by_layer(fields, rules, model);
  const json& parameters = fields.value(kParameters);
  const json& scaling = fields.value(kScaling);
  const json& chosen = scaling.empty() ? parameters : scaling;  // null is empty too
  const std::string name = scaling.empty() ? kParameters : kScaling;
  if (chosen.is_null()) {
    if (rules.turns_parts) read_rope_parts(fields, model, rotary);
    return;
  }
  if (!chosen.is_object()) fields.refuse(name, "expected an object");
  for (const json& value : chosen)
    if (value.is_object()) fields.refuse(name, "Troupe rotates all layers alike");
  ConfigFields rope(chosen, fields.place() + ": " + name);
  read_rope_object(fields, rope, rules, model, rotary);
  if (!rules.turns_parts) return;
  // The part in the object counts before the one beside it.
  json parts = chosen;
  if (const json& beside = fields.value(kPartial); !beside.is_null() && !parts.contains(kPartial))
    parts[kPartial] = beside;
  ConfigFields with_part(parts, fields.place() + ": " + name);
  read_rope_parts(with_part, model, rotary);
}

json rope_fields_of(const ModelConfig& model, const RopeRules& rules) {
  const Rotary& rotary = model.rotary;
  json fields = {{kTheta, rotary.theta}, {kScaling, nullptr}};
  if (rules.is_by_layer) fields[kLocalTheta] = model.local_rotary->theta;
  json parts = rope_parts_of(model);
  if (parts.contains(kPartial)) fields[kPartial] = parts[kPartial];
  parts.erase(kPartial);
  if (rotary.type == RotaryType::standard) return fields;
  json scaling = {{kType, tensor::name_of(rotary.type)}};
  for (const auto& [field, member] : tensor::kRotaryNumbers)
    if (tensor::reads(rotary.type, field) && rotary.*member != 0)  // 0: not given
      scaling[std::string(field)] = rotary.*member;
  // Dynamic takes max_position_embeddings, which is the same.
  if (tensor::reads(rotary.type, kOriginal) && rotary.type != RotaryType::dynamic)
    (rules.original > 0 ? fields : scaling)[kOriginal] = rotary.original_max_position_embeddings;
  if (tensor::reads(rotary.type, kTruncate)) scaling[kTruncate] = rotary.truncate;
  scaling.update(parts);
  fields[kScaling] = scaling;
  return fields;
}

}  // namespace troupe::stages
