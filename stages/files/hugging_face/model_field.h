#pragma once

#include <cstdint>
#include <type_traits>
#include <variant>

#include "stages/files/hugging_face/config_fields.h"
#include "stages/model/model_config.h"

namespace troupe::stages {

/// A member of the model that is a field of a config.json.
template <typename T>
struct FieldMember {
  T ModelConfig::*at;
  /// A number that may be null in the file, which is 0 here; it is above 0 where it is given.
  bool has_none = false;
};
struct ModelField {
  const char* name;
  std::variant<FieldMember<std::int64_t>, FieldMember<double>, FieldMember<bool>> member;
  const char* alias = nullptr;  ///< the name that other models have for it; where given, it counts
};

/// Sets the member, to that of `defaults` where the field is missing. Throws as ConfigFields does.
void read_field(const ModelField& field, ConfigFields& fields, const ModelConfig& defaults,
                ModelConfig& model);
template <typename Json>
void write_field(const ModelField& field, const ModelConfig& model, Json& config) {
  const auto write = [&](const auto& member) {
    const auto value = model.*member.at;
    if (member.has_none && value == std::remove_cvref_t<decltype(value)>())
      config[field.name] = nullptr;
    else
      config[field.name] = value;
  };
  std::visit(write, field.member);
}

}  // namespace troupe::stages
