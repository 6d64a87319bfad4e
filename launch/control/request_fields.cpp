#include "launch/control/request_fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <span>

#include "launch/host/suggest.h"
#include "tensor/errors/error.h"

namespace troupe::launch {

using nlohmann::json;

void refuse_other_fields(const json& request, std::initializer_list<std::string_view> known) {
  const std::span names(known.begin(), known.size());
  for (const auto& [field, value] : request.items()) {
    if (field == "token" || field == "request" || std::ranges::find(names, field) != names.end())
      continue;
    const auto order = request.value("request", "this request");
    if (names.empty()) refuse(fmt::format("'{}' is no field of {}, which has none", field, order));
    refuse(fmt::format("'{}' is no field of {}; did you mean '{}'? It has {}", field, order,
                       nearest(field, names), quoted_list(names)));
  }
}

std::optional<std::int64_t> number_field(const json& request, const char* field) {
  const auto value = request.find(field);
  if (value == request.end()) return std::nullopt;
  constexpr auto kMax = std::numeric_limits<std::int64_t>::max();
  const bool too_large = value->is_number_unsigned() && *value > kMax;
  if (!value->is_number_integer() || too_large)
    refuse(fmt::format("{} must be a whole number", field));
  return value->get<std::int64_t>();
}

std::optional<int> count_field(const json& request, const char* field) {
  constexpr int kMax = std::numeric_limits<int>::max();
  const auto number = number_field(request, field);
  if (!number) return std::nullopt;
  if (*number < -kMax || *number > kMax)
    refuse(fmt::format("{} must be a whole number of at most {}", field, kMax));
  return static_cast<int>(*number);
}

std::optional<bool> flag_field(const json& request, const char* field) {
  const auto value = request.find(field);
  if (value == request.end()) return std::nullopt;
  if (!value->is_boolean()) refuse(fmt::format("{} must be true or false", field));
  return value->get<bool>();
}

std::optional<std::string> text_field(const json& request, const char* field) {
  const auto value = request.find(field);
  if (value == request.end()) return std::nullopt;
  if (!value->is_string()) refuse(fmt::format("{} must be a text", field));
  return value->get<std::string>();
}

std::optional<std::string> filled_field(const json& request, const char* field) {
  auto text = text_field(request, field);
  if (text && text->empty())
    refuse(fmt::format("{} is empty; give it a value or leave it out", field));
  return text;
}

std::vector<std::string> names_field(const json& request, const char* field) {
  const auto value = request.find(field);
  if (value == request.end()) return {};
  const auto is_name = [](const json& name) { return name.is_string() && name != ""; };
  if (!value->is_array() || !std::ranges::all_of(*value, is_name))
    refuse(fmt::format("{} must be a list of names", field));
  return value->get<std::vector<std::string>>();
}

}  // namespace troupe::launch
