#include "stages/files/hugging_face/fused_experts.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "stages/storage/data_error.h"

namespace troupe::stages {
namespace {

constexpr std::string_view kComputed = ".mlp.";  // the module's name in transformers 5
constexpr std::string_view kGateUp = ".experts.gate_up_proj", kDown = ".experts.down_proj";

/// How files name the matrices of an expert, and the module that has them.
struct ExpertNames {
  std::string_view module;
  const char *gate, *up, *down;
};
ExpertNames names_of(ModelKind kind) {
  if (kind == ModelKind::mixtral) return {".block_sparse_moe.", "w1", "w3", "w2"};
  return {kComputed, "gate_proj", "up_proj", "down_proj"};
}

/// The name with the module's name in files.
std::string as_in_files(std::string name, const ExpertNames& names) {
  if (const auto at = name.find(kComputed); at != std::string::npos)
    name.replace(at, kComputed.size(), names.module);
  return name;
}

/// A matrix [rows, columns] of each expert, so many rows below the first one's in the fused tensor.
class Splitter {
 public:
  Splitter(const ModelConfig& model, TensorMap& map, std::list<TensorEntry>& parts)
      : model_(model), map_(map), parts_(parts) {}

  void split(const std::string& stem, const TensorPlace& place, std::vector<const char*> matrices,
             std::int64_t rows, std::int64_t columns) {
    const TensorEntry& whole = *place.entry;
    const std::int64_t of_expert = std::ssize(matrices) * rows;
    const std::vector<std::int64_t> shape{model_.experts.count, of_expert, columns};
    if (whole.shape != shape)
      throw data_error("{}: tensor {} is [{}], expected [{}]", place.file->path().string(),
                       whole.name, fmt::join(whole.shape, ", "), fmt::join(shape, ", "));
    const std::uint64_t bytes =
        whole.num_bytes() / static_cast<std::uint64_t>(shape[0] * std::ssize(matrices));
    std::uint64_t begin = whole.begin;
    for (std::int64_t e = 0; e < shape[0]; ++e)
      for (const char* matrix : matrices) {
        TensorEntry& part = parts_.emplace_back(whole);
        part.name = fmt::format("{}.experts.{}.{}.weight", stem, e, matrix);
        part.shape = {rows, columns};
        part.sums.clear();
        part.begin = begin;
        part.end = begin += bytes;
        part.whole = as_matrix(part.shape, rows * columns);
        map_.insert_or_assign(part.name, TensorPlace{place.file, &part});
      }
  }

 private:
  const ModelConfig& model_;
  TensorMap& map_;
  std::list<TensorEntry>& parts_;
};

}  // namespace

TensorMap split_experts(TensorMap found, const ModelConfig& model, std::list<TensorEntry>& parts) {
  if (!traits_of(model.kind).has_experts) return found;
  const ExpertNames names = names_of(model.kind);
  const std::int64_t width = model.experts.width, hidden = model.hidden_size;
  TensorMap map;
  Splitter splitter(model, map, parts);
  for (const auto& [name, place] : found) {
    const std::string own = as_in_files(name, names);
    const auto stem = [&](std::string_view ending) {
      return own.substr(0, own.size() - ending.size());
    };
    if (name.ends_with(kGateUp))
      splitter.split(stem(kGateUp), place, {names.gate, names.up}, width, hidden);
    else if (name.ends_with(kDown))
      splitter.split(stem(kDown), place, {names.down}, hidden, width);
    else if (!map.try_emplace(own, place).second)
      throw data_error("{}: tensors {} and {} are both there", place.file->path().string(), name,
                       own);
  }
  return map;
}

}  // namespace troupe::stages
