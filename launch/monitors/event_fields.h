#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "actors/topology/reports.h"

namespace troupe::launch {

// Fields of an event that a run has sent. A field that is missing or of another type counts as
// empty, so that a monitor shows what it can of a run of another version.

/// The number in a field; NaN if there is none.
double number_of(const nlohmann::json& event, const char* field);
std::int64_t integer_of(const nlohmann::json& event, const char* field, std::int64_t otherwise = 0);
std::string text_of(const nlohmann::json& event, const char* field);
bool flag_of(const nlohmann::json& event, const char* field);
/// The objects in an array; other elements are left out.
std::vector<nlohmann::json> objects_of(const nlohmann::json& event, const char* field);
/// The losses on several sets that an evaluation has; none if there is but one.
std::vector<actors::SetLoss> set_losses(const nlohmann::json& evaluation);

}  // namespace troupe::launch
