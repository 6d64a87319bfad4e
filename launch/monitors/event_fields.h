#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace troupe::launch {

// Fields of an event that came from a run. One that is missing or of another type counts as empty:
// a reader shows what it can of a run of another version.

/// NaN if there is none.
double number_of(const nlohmann::json& event, const char* field);
std::int64_t integer_of(const nlohmann::json& event, const char* field, std::int64_t otherwise = 0);
std::string text_of(const nlohmann::json& event, const char* field);
bool flag_of(const nlohmann::json& event, const char* field);
/// The objects of an array.
std::vector<nlohmann::json> objects_of(const nlohmann::json& event, const char* field);

}  // namespace troupe::launch
