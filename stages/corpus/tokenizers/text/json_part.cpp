#include "stages/corpus/tokenizers/text/json_part.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "tensor/errors/error.h"

namespace troupe::stages {

void JsonPart::fail(std::string_view why) const {
  throw Error(ErrorKind::data, fmt::format("{}: {}", where(), why));
}

std::string JsonPart::where() const {
  return place_.empty() ? file_ : fmt::format("{}: {}", file_, place_);
}

std::string JsonPart::text() const {
  if (!value_.is_string()) fail("must be a text");
  return value_.get<std::string>();
}

std::int64_t JsonPart::integer() const {
  if (!value_.is_number_integer() ||
      (value_.is_number_unsigned() && value_.get<std::uint64_t>() > INT64_MAX))
    fail("must be an integer");
  return value_.get<std::int64_t>();
}

bool JsonPart::flag() const {
  if (!value_.is_boolean()) fail("must be true or false");
  return value_.get<bool>();
}

std::vector<JsonPart> JsonPart::items() const {
  if (!value_.is_array()) fail("must be a list");
  std::vector<JsonPart> items;
  items.reserve(value_.size());
  for (const auto& item : value_)
    items.push_back(JsonPart(file_, fmt::format("{}[{}]", place_, items.size()), item));
  return items;
}

std::optional<JsonPart> JsonPart::find(const char* name) const {
  if (!value_.is_object()) fail("must be an object");
  const auto member = value_.find(name);
  if (member == value_.end() || member->is_null()) return std::nullopt;
  return JsonPart(file_, place_.empty() ? name : fmt::format("{}.{}", place_, name), *member);
}

JsonPart JsonPart::at(const char* name) const {
  const auto member = find(name);
  if (!member) fail(fmt::format("\"{}\" is missing", name));
  return *member;
}

bool JsonPart::flag(const char* name, bool otherwise) const {
  const auto member = find(name);
  return member ? member->flag() : otherwise;
}

std::string JsonPart::text(const char* name, const std::string& otherwise) const {
  const auto member = find(name);
  return member ? member->text() : otherwise;
}

}  // namespace troupe::stages
