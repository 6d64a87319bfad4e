#include "stages/files/safetensors/safetensors_layout.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>

#include "stages/files/safetensors/region_sums.h"
#include "stages/files/safetensors/safetensors.h"
#include "tensor/errors/error.h"

namespace troupe::stages {
namespace {

using nlohmann::json;

constexpr std::size_t kAlignment = 8;

/// The dtype's place in the format's order. Wide dtypes come later in it, and first in a file, so
/// that every tensor is aligned.
const SafetensorsDType* dtype_of(const TensorLayout& tensor) {
  const auto* found = std::ranges::find(kSafetensorsDTypes, tensor.dtype, &SafetensorsDType::name);
  TROUPE_ASSERT(found != kSafetensorsDTypes.end());
  return found;
}

tensor::Region matrix_of(const tensor::Shape& shape) {
  return as_matrix(shape.dims(), shape.num_elements());
}

/// The names of what has a checksum.
std::vector<std::string> region_names(const TensorLayout& tensor) {
  if (tensor.regions.empty()) return {tensor.name};
  std::vector<std::string> names;
  for (const tensor::Region& region : tensor.regions)
    names.push_back(region_name(tensor.name, region, matrix_of(tensor.shape)));
  return names;
}

}  // namespace

SafetensorsLayout::SafetensorsLayout(std::vector<TensorLayout> tensors) {
  std::ranges::sort(tensors, [](const TensorLayout& a, const TensorLayout& b) {
    return std::pair(dtype_of(b), std::string_view(a.name)) <
           std::pair(dtype_of(a), std::string_view(b.name));
  });
  std::uint64_t length = 0;
  head_.resize(sizeof length);
  add_metadata(tensors);
  add_entries(tensors);
  head_.resize((head_.size() + kAlignment - 1) / kAlignment * kAlignment, ' ');
  length = head_.size() - sizeof length;
  if (length > kMaxHeaderBytes)
    throw Error(ErrorKind::internal,
                fmt::format("{} tensors need a header of {} bytes, at most {} are allowed",
                            tensors.size(), length, kMaxHeaderBytes));
  std::memcpy(head_.data(), &length, sizeof length);
  size_ += head_.size();
  for (auto& [name, place] : places_) place.matrix.begin += head_.size();
}

std::vector<SafetensorsLayout::HeadPart> SafetensorsLayout::parts_between_sums() const {
  std::vector<std::uint64_t> ends;
  for (const auto& [name, begin] : sums_) ends.push_back(begin);
  std::ranges::sort(ends);
  ends.push_back(head_.size());
  std::vector<HeadPart> parts;
  std::uint64_t begin = 0;
  for (const std::uint64_t end : ends) {
    parts.push_back({begin, std::string_view(head_).substr(begin, end - begin)});
    begin = end + std::strlen(kUnsetSum);
  }
  return parts;
}

std::uint64_t SafetensorsLayout::sum_of(const std::string& tensor,
                                        const tensor::Region& region) const {
  return sums_.at(region_name(tensor, region, whole_of(tensor)));
}

void SafetensorsLayout::add_metadata(const std::vector<TensorLayout>& tensors) {
  head_ += R"({"__metadata__":{"format":"pt")";
  for (const TensorLayout& tensor : tensors)
    for (const std::string& name : region_names(tensor)) {
      head_ += fmt::format(R"(,{}:")", json(sum_key(name)).dump());
      sums_[name] = head_.size();
      head_ += fmt::format(R"({}")", kUnsetSum);
    }
  head_ += '}';
}

void SafetensorsLayout::add_entries(const std::vector<TensorLayout>& tensors) {
  for (const TensorLayout& tensor : tensors) {
    const tensor::Region whole = stages::matrix_of(tensor.shape);
    const std::size_t element_bytes = dtype_of(tensor)->bits / 8;
    const std::uint64_t begin = size_;
    size_ += static_cast<std::uint64_t>(whole.num_elements()) * element_bytes;
    places_[tensor.name] = {whole, {begin, whole.columns, element_bytes}};
    head_ += fmt::format(R"(,{}:{{"dtype":"{}","shape":[{}],"data_offsets":[{},{}]}})",
                         json(tensor.name).dump(), tensor.dtype,
                         fmt::join(tensor.shape.dims(), ","), begin, size_);
  }
  head_ += '}';
}

}  // namespace troupe::stages
