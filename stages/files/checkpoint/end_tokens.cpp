#include "stages/files/checkpoint/end_tokens.h"

#include <limits>

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

}  // namespace

std::vector<std::int32_t> end_tokens(const std::filesystem::path& dir) {
  for (const char* name : {"generation_config.json", "config.json"}) {
    const std::filesystem::path path = dir / name;
    if (!file_exists(path)) continue;
    const nlohmann::json file = read_json_file(path);
    const nlohmann::json ids = file.value("eos_token_id", nlohmann::json());
    if (ids.is_null()) continue;
    std::vector<std::int32_t> ends;
    if (!ids.is_array()) return {id_in(ids, path)};
    for (const nlohmann::json& id : ids) ends.push_back(id_in(id, path));
    return ends;
  }
  return {};
}

}  // namespace troupe::stages
