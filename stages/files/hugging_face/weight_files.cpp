#include "stages/files/hugging_face/weight_files.h"

#include <fmt/format.h>

#include <array>
#include <map>
#include <set>
#include <string>

#include "stages/files/safetensors/file_names.h"
#include "stages/files/safetensors/json_file.h"
#include "stages/storage/data_error.h"
#include "stages/storage/input_file.h"
#include "stages/storage/output_file.h"
#include "tensor/errors/error.h"

namespace troupe::stages {
namespace {

namespace fs = std::filesystem;

/// The file of each tensor, by name.
using WeightMap = std::map<std::string, std::string>;

WeightMap read_index(const fs::path& path) {
  const nlohmann::json index = read_json_file(path);
  const auto map = index.find("weight_map");
  if (map == index.end() || !map->is_object() || map->empty())
    throw data_error("{}: \"weight_map\" is no object of tensors and files", path.string());
  WeightMap files;
  for (const auto& [tensor, file] : map->items()) {
    if (!file.is_string() || !is_plain_name(file.get<std::string>()))
      throw data_error(
          "{}: tensor {} lies in {}, which is no file of this "
          "directory",
          path.string(), tensor, file.dump());
    files[tensor] = file.get<std::string>();
  }
  return files;
}

/// Throws unless each file holds the tensors that the index says, and no other.
void check_index(const fs::path& path, WeightMap expected,
                 const std::vector<SafetensorsFile>& files) {
  for (const SafetensorsFile& file : files)
    for (const TensorEntry& entry : file.tensors()) {
      const std::string name = file.path().filename().string();
      const auto found = expected.find(entry.name);
      if (found == expected.end() || found->second != name)
        throw data_error("{}: tensor {} is in {}, {}", path.string(), entry.name, name,
                         found == expected.end() ? "which the index does not say"
                                                 : "the index says " + found->second);
      expected.erase(found);
    }
  for (const auto& [tensor, file] : expected)
    throw data_error("{}: tensor {} is not in {}, as the index says", path.string(), tensor, file);
}

/// What the directory holds instead of safetensors, for a message.
std::string other_weights(const fs::path& dir) {
  constexpr std::array<std::string_view, 7> kWeightEndings{".bin", ".pt",   ".pth",    ".ckpt",
                                                           ".h5",  ".gguf", ".msgpack"};
  std::error_code code;
  for (fs::directory_iterator entry(dir, code), end; !code && entry != end; entry.increment(code))
    for (const std::string_view ending : kWeightEndings)
      if (entry->path().extension() == ending)
        return fmt::format("; {} is another format: save the model as safetensors",
                           entry->path().filename().string());
  return {};
}

}  // namespace

std::vector<SafetensorsFile> open_weight_files(const fs::path& dir) {
  std::vector<SafetensorsFile> files;
  if (file_exists(dir / kWeightsFile)) {
    files.push_back(SafetensorsFile::open(dir / kWeightsFile));
    return files;
  }
  const fs::path index = dir / kWeightsIndexFile;
  if (!file_exists(index))
    throw data_error("{} holds neither {} nor {}{}", dir.string(), kWeightsFile, kWeightsIndexFile,
                     other_weights(dir));
  const WeightMap expected = read_index(index);
  std::set<std::string> names;
  for (const auto& [tensor, file] : expected) names.insert(file);
  for (const std::string& name : names) files.push_back(SafetensorsFile::open(dir / name));
  check_index(index, expected, files);
  return files;
}

void write_index(const fs::path& path, const TensorMap& tensors) {
  nlohmann::json weight_map = nlohmann::json::object();
  std::uint64_t total_size = 0;
  for (const auto& [name, place] : tensors) {
    weight_map[name] = place.file->path().filename().string();
    total_size += place.entry->num_bytes();
  }
  const nlohmann::json index = {{"metadata", {{"total_size", total_size}}},
                                {"weight_map", weight_map}};
  write_whole_file(path, index.dump(2) + '\n');
}

}  // namespace troupe::stages
