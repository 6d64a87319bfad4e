#include "stages/files/hugging_face/tensor_names.h"

#include <algorithm>
#include <set>
#include <string_view>

#include "stages/files/hugging_face/fused_experts.h"
#include "stages/files/safetensors/stored_tensor.h"
#include "stages/storage/data_error.h"
#include "tensor/errors/error.h"

namespace troupe::stages {
namespace {

std::set<std::string, std::less<>> names_of(const ModelConfig& model) {
  std::set<std::string, std::less<>> names;
  for (const StoredTensor& tensor : stored_tensors(model)) names.insert(tensor.name);
  return names;
}

bool is_constant(std::string_view name, ModelKind kind) {
  return std::ranges::any_of(traits_of(kind).constants,
                             [&](std::string_view ending) { return name.ends_with(ending); });
}

std::vector<std::byte> rows_of(const TensorPlace& place, std::int64_t row, std::int64_t rows) {
  tensor::Region region = place.entry->whole;
  region.row = row;
  region.rows = rows;
  std::vector<std::byte> bytes(static_cast<std::size_t>(region.num_elements()) *
                               place.entry->element_bytes);
  place.file->read(*place.entry, region, bytes);
  return bytes;
}

/// Whether two tensors hold the same bytes in the same form. Reads them in pieces of some rows.
bool are_equal(const TensorPlace& a, const TensorPlace& b) {
  if (a.entry->dtype != b.entry->dtype || a.entry->shape != b.entry->shape) return false;
  constexpr std::int64_t kPieces = 64;
  const std::int64_t all = a.entry->whole.rows;
  const std::int64_t rows = std::max<std::int64_t>(1, all / kPieces);
  for (std::int64_t row = 0; row < all; row += rows) {
    const std::int64_t piece = std::min(rows, all - row);
    if (rows_of(a, row, piece) != rows_of(b, row, piece)) return false;
  }
  return true;
}

void leave_out_tied_head(NamedTensors& named, const ModelConfig& model) {
  const char* const name = traits_of(model.kind).head_name;
  const auto head = named.tensors.find(name);
  const auto embedding = named.tensors.find(parameters_of(model).front().name);
  if (!model.tie_word_embeddings || head == named.tensors.end() || embedding == named.tensors.end())
    return;
  if (!are_equal(head->second, embedding->second))
    throw data_error(
        "{}: tie_word_embeddings is true, but {} is not {}; set it to false in "
        "config.json, or leave the tensor out",
        head->second.file->path().string(), name, embedding->first);
  named.left_out.push_back(name);
  named.tensors.erase(head);
}

}  // namespace

NamedTensors canonical_names(const TensorMap& found, const ModelConfig& model) {
  const auto expected = names_of(model);
  NamedTensors named;
  for (const auto& [name, place] : split_experts(found, model, named.parts)) {
    const std::string prefixed = traits_of(model.kind).name_prefix + std::string(name);
    if (!expected.contains(name) && is_constant(name, model.kind)) {
      named.left_out.push_back(name);
      continue;
    }
    const std::string& canonical =
        !expected.contains(name) && expected.contains(prefixed) ? prefixed : name;
    const auto [other, is_new] = named.tensors.emplace(canonical, place);
    if (!is_new)
      throw data_error("{}: tensors {} and {} are both there", place.file->path().string(), name,
                       prefixed);
  }
  leave_out_tied_head(named, model);
  return named;
}

}  // namespace troupe::stages
