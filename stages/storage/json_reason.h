#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace troupe::stages {

/// What a parser of JSON says is wrong, and where: "line 2, column 14: syntax error while parsing
/// ...", without the library's name for it. Of a long reason, which quotes all of a text that does
/// not end, the beginning.
std::string json_reason(const nlohmann::json::exception& error);

}  // namespace troupe::stages
