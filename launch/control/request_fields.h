#pragma once

#include <cstdint>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::launch {

// Fields of a request from outside, {"token": ..., "request": NAME, ...}. What is wrong with one is
// an Error{usage} that names it.

/// Refuses a field that is none of `known`, token and request.
void refuse_other_fields(const nlohmann::json& request,
                         std::initializer_list<std::string_view> known);

/// A whole number; none if the field is missing.
std::optional<std::int64_t> number_field(const nlohmann::json& request, const char* field);
/// A whole number that an int holds; none if the field is missing.
std::optional<int> count_field(const nlohmann::json& request, const char* field);
/// True or false; none if the field is missing.
std::optional<bool> flag_field(const nlohmann::json& request, const char* field);
/// A text; none if the field is missing.
std::optional<std::string> text_field(const nlohmann::json& request, const char* field);
/// A text that is not empty; none if the field is missing.
std::optional<std::string> filled_field(const nlohmann::json& request, const char* field);
/// Names that are not empty; none if the field is missing.
std::vector<std::string> names_field(const nlohmann::json& request, const char* field);

}  // namespace troupe::launch
