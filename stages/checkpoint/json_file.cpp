#include "stages/checkpoint/json_file.h"

#include <fmt/format.h>

#include <set>
#include <vector>

#include "stages/storage/input_file.h"
#include "tensor/error.h"

namespace troupe::stages {
namespace {

constexpr std::uint64_t kMaxJsonBytes = 100'000'000;
constexpr int kMaxDepth = 8;

const nlohmann::json& member(const nlohmann::json& object, const char* name,
                             const std::filesystem::path& path) {
  const auto found = object.find(name);
  if (found == object.end())
    throw Error(ErrorKind::data, fmt::format("{}: \"{}\" is missing", path.string(), name));
  return *found;
}

Error wrong_type(const nlohmann::json& value, const char* name, const char* expected,
                 const std::filesystem::path& path) {
  return Error(ErrorKind::data, fmt::format("{}: \"{}\" is a {}, expected {}", path.string(), name,
                                            value.type_name(), expected));
}

}  // namespace

nlohmann::json parse_json(std::string_view text, int max_depth) {
  using Event = nlohmann::json::parse_event_t;
  std::vector<std::set<std::string>> names;  // of the objects around the parser's place
  const auto watch = [&](int depth, Event event, nlohmann::json& parsed) {
    if (event == Event::object_start || event == Event::array_start) {
      if (depth >= max_depth)
        throw Error(ErrorKind::data, fmt::format("nested deeper than {} levels", max_depth));
    }
    if (event == Event::object_start) names.emplace_back();
    if (event == Event::object_end) names.pop_back();
    if (event == Event::key && !names.back().insert(parsed.get<std::string>()).second)
      throw Error(ErrorKind::data, fmt::format("the name {} is given twice", parsed.dump()));
    return true;
  };
  try {
    return nlohmann::json::parse(text, watch);
  } catch (const nlohmann::json::exception& error) {
    throw Error(ErrorKind::data, fmt::format("not valid JSON: {}", error.what()));
  }
}

nlohmann::json read_json_file(const std::filesystem::path& path) {
  const std::string text = read_whole_file(path, kMaxJsonBytes);
  nlohmann::json json;
  try {
    json = parse_json(text, kMaxDepth);
  } catch (const Error& error) {
    throw Error(ErrorKind::data, fmt::format("{}: {}", path.string(), error.what()));
  }
  if (!json.is_object())
    throw Error(ErrorKind::data, fmt::format("{}: not a JSON object", path.string()));
  return json;
}

std::int64_t get_integer(const nlohmann::json& object, const char* name,
                         const std::filesystem::path& path) {
  const nlohmann::json& value = member(object, name, path);
  const bool too_large = value.is_number_unsigned() && value.get<std::uint64_t>() > INT64_MAX;
  if (!value.is_number_integer() || too_large) throw wrong_type(value, name, "an integer", path);
  return value.get<std::int64_t>();
}

double get_number(const nlohmann::json& object, const char* name,
                  const std::filesystem::path& path) {
  const nlohmann::json& value = member(object, name, path);
  if (!value.is_number()) throw wrong_type(value, name, "a number", path);
  return value.get<double>();
}

bool get_bool(const nlohmann::json& object, const char* name, const std::filesystem::path& path) {
  const nlohmann::json& value = member(object, name, path);
  if (!value.is_boolean()) throw wrong_type(value, name, "true or false", path);
  return value.get<bool>();
}

std::string get_string(const nlohmann::json& object, const char* name,
                       const std::filesystem::path& path) {
  const nlohmann::json& value = member(object, name, path);
  if (!value.is_string()) throw wrong_type(value, name, "a string", path);
  return value.get<std::string>();
}

}  // namespace troupe::stages
