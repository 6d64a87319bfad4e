#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "stages/files/safetensors/json_file.h"

namespace troupe::stages {

/// The fields of a config.json, or of an object in it, as they are asked for. Every call throws
/// Error{data} naming file and field if a value has another type. A field that is missing has its
/// fallback, which should be the default of transformers; null counts as missing only where none is
/// returned.
class ConfigFields {
 public:
  /// `place` names the file, and what in it, in errors. The object outlives this.
  ConfigFields(const nlohmann::json& object, std::string place)
      : object_(object), place_(std::move(place)) {}

  /// T is one of get_member()'s.
  template <typename T>
  T get(const std::string& name, const T& fallback) {
    asked_.insert(name);
    return object_.contains(name) ? get_member<T>(object_, name.c_str(), place_) : fallback;
  }
  template <typename T>
  std::optional<T> find(const std::string& name) {
    if (value(name).is_null()) return std::nullopt;
    return get_member<T>(object_, name.c_str(), place_);
  }
  /// The fallback if the field is missing, none if it is null.
  template <typename T>
  std::optional<T> get_or_null(const std::string& name, const T& fallback) {
    asked_.insert(name);
    return object_.contains(name) ? find<T>(name) : std::optional(fallback);
  }
  /// The field as it is; null if it is missing or null.
  const nlohmann::json& value(const std::string& name);

  /// Throws Error{data}: file, field, its value and why it is refused.
  [[noreturn]] void refuse(const std::string& name, const std::string& why) const;
  /// Refuses every field that nobody asked for and that in other models changes what is computed,
  /// unless it has the value with which it changes nothing.
  void refuse_unsupported();

  /// Fields that nobody asked for, but for those which are known to say nothing about what the
  /// model computes.
  std::vector<std::string> unused() const;
  const std::string& place() const { return place_; }

 private:
  const nlohmann::json& object_;
  std::string place_;
  const nlohmann::json null_;
  std::set<std::string> asked_;
};

}  // namespace troupe::stages
