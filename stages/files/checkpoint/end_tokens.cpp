#include "stages/files/checkpoint/end_tokens.h"

#include <limits>
#include <optional>

#include "stages/files/peft/peft_config.h"
#include "stages/files/safetensors/json_file.h"
#include "stages/storage/data_error.h"
#include "stages/storage/input_file.h"
#include "tensor/errors/error.h"

namespace troupe::stages {
namespace {

std::int32_t id_in(const nlohmann::json& id, const std::filesystem::path& path) {
  const bool is_id =
      id.is_number_integer() && id >= 0 && id <= std::numeric_limits<std::int32_t>::max();
  if (!is_id)
    throw data_error("{}: eos_token_id is {}; it must be a token id or a list of them",
                     path.string(), id.dump());
  return id.get<std::int32_t>();
}

/// What a file says, if it is there and says something.
std::optional<std::vector<std::int32_t>> ends_in(const std::filesystem::path& path) {
  if (!file_exists(path)) return std::nullopt;
  const nlohmann::json file = read_json_file(path);
  const nlohmann::json ids = file.value("eos_token_id", nlohmann::json());
  if (ids.is_null()) return std::nullopt;
  std::vector<std::int32_t> ends;
  if (!ids.is_array()) return {{id_in(ids, path)}};
  for (const nlohmann::json& id : ids) ends.push_back(id_in(id, path));
  return ends;
}

}  // namespace

std::vector<std::int32_t> end_tokens(const std::filesystem::path& dir) {
  std::vector<std::filesystem::path> places{dir};
  if (holds_adapter(dir)) places.push_back(base_of_adapter(dir));
  for (const std::filesystem::path& place : places)
    for (const char* name : {"generation_config.json", kConfigFile})
      if (auto ends = ends_in(place / name)) return std::move(*ends);
  return {};
}

}  // namespace troupe::stages
