#include "stages/files/safetensors/model_tensors.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <vector>

#include "stages/files/safetensors/file_names.h"
#include "stages/files/safetensors/region_sums.h"
#include "stages/files/safetensors/stored_tensor.h"
#include "stages/files/safetensors/weight_dtype.h"
#include "stages/storage/data_error.h"
#include "tensor/errors/error.h"

namespace troupe::stages {
namespace {

/// Throws unless the map holds exactly the tensors names_of(tensor) of each tensor of the model.
template <typename NamesOf>
void check_tensors(const TensorMap& tensors, const ModelConfig& model, const NamesOf& names_of) {
  // Before parameters_of makes a list for all layers.
  if (model.num_hidden_layers > static_cast<std::int64_t>(tensors.size()))
    throw data_error("{} tensors cannot make a model of {} layers", tensors.size(),
                     model.num_hidden_layers);
  std::set<std::string, std::less<>> expected;
  for (const StoredTensor& tensor : saved_tensors(model))
    for (const std::string& name : names_of(tensor)) {
      find_tensor(tensors, name, tensor.shape);
      expected.insert(name);
    }
  if (tensors.size() == expected.size()) return;
  for (const auto& [name, place] : tensors)
    if (!expected.contains(name))
      throw data_error("{}: tensor {} is no part of the model", place.file->path().string(), name);
}

}  // namespace

TensorMap map_tensors(std::span<const SafetensorsFile> files) {
  TensorMap tensors;
  for (const SafetensorsFile& file : files)
    for (const TensorEntry& entry : file.tensors()) {
      const auto [place, fresh] = tensors.try_emplace(entry.name, TensorPlace{&file, &entry});
      if (!fresh)
        throw data_error("tensor {} is in {} and in {}", entry.name,
                         place->second.file->path().string(), file.path().string());
    }
  return tensors;
}

void check_weights(const TensorMap& tensors, const ModelConfig& model) {
  check_tensors(tensors, model,
                [](const StoredTensor& tensor) { return std::vector{tensor.name}; });
}

void check_optimizer(const TensorMap& tensors, const ModelConfig& model) {
  check_tensors(tensors, model, [](const StoredTensor& tensor) -> std::vector<std::string> {
    if (tensor.frozen) return {};
    return {exp_avg_name(tensor.name), exp_avg_sq_name(tensor.name)};
  });
}

void check_sums(const TensorMap& tensors) {
  for (const auto& [name, place] : tensors) {
    const auto& [file, entry] = place;
    if (entry->sums.empty())
      throw data_error("{}: tensor {} has no checksum", file->path().string(), name);
    for (const auto& [region, sum] : entry->sums)
      if (sum == kUnsetSum)
        throw data_error("{}: tensor {} was not written", file->path().string(),
                         region_name(name, region, entry->whole));
  }
}

const TensorPlace& find_tensor(const TensorMap& tensors, const std::string& name,
                               const tensor::Shape& shape) {
  const auto found = tensors.find(name);
  if (found == tensors.end()) throw data_error("tensor {} is missing", name);
  const TensorEntry& entry = *found->second.entry;
  if (!weight_dtype(entry.dtype) || !std::ranges::equal(entry.shape, shape.dims()))
    throw data_error("{}: tensor {} is {} [{}], expected F32, BF16 or F16 [{}]",
                     found->second.file->path().string(), name, entry.dtype,
                     fmt::join(entry.shape, ", "), fmt::join(shape.dims(), ", "));
  return found->second;
}

}  // namespace troupe::stages
