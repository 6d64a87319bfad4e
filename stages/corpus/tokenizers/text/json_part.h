#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace troupe::stages {

/// A value in a JSON file, read by the types that it must have. Every failure is an Error{data}
/// with the file, the place of the value, and what is wrong. The value outlives its parts.
class JsonPart {
 public:
  JsonPart(std::string file, const nlohmann::json& value) : file_(std::move(file)), value_(value) {}

  [[noreturn]] void fail(std::string_view why) const;
  /// The file, and the place of the value in it.
  std::string where() const;
  const nlohmann::json& value() const { return value_; }
  /// Another value in its place.
  JsonPart with(const nlohmann::json& value) const { return JsonPart(file_, place_, value); }

  std::string text() const;
  std::int64_t integer() const;
  bool flag() const;
  std::vector<JsonPart> items() const;

  // Members of an object; a member that is null counts as missing.
  std::optional<JsonPart> find(const char* name) const;
  JsonPart at(const char* name) const;
  bool flag(const char* name, bool otherwise) const;
  std::string text(const char* name, const std::string& otherwise) const;
  /// The kind of the part: its member "type".
  std::string type() const { return at("type").text(); }

 private:
  JsonPart(std::string file, std::string place, const nlohmann::json& value)
      : file_(std::move(file)), place_(std::move(place)), value_(value) {}

  std::string file_;
  std::string place_;  ///< as "model.vocab"; empty: the file as a whole
  const nlohmann::json& value_;
};

}  // namespace troupe::stages
