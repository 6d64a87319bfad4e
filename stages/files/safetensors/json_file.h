#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace troupe::stages {

/// Parses JSON from outside. Unlike the library's own function it refuses a name given twice in one
/// object and nesting deeper than `max_depth`, before memory is taken for it. Throws Error{data}
/// with the place in the text.
nlohmann::json parse_json(std::string_view text, int max_depth);

/// The JSON object in a small file. Throws Error{data} naming the file.
nlohmann::json read_json_file(const std::filesystem::path& path);

/// The member `name` of a JSON object that was read from `path`, a std::int64_t, double, bool or
/// std::string. Throws Error{data} naming file and member if it is missing or of another type; an
/// integer is not converted from any other type.
template <typename T>
T get_member(const nlohmann::json& object, const char* name, const std::filesystem::path& path);

}  // namespace troupe::stages
