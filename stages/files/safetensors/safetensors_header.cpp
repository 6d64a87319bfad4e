#include <algorithm>

#include "stages/files/safetensors/json_file.h"
#include "stages/files/safetensors/region_sums.h"
#include "stages/files/safetensors/safetensors.h"
#include "stages/storage/data_error.h"
#include "tensor/errors/error.h"

namespace troupe::stages {
namespace {

using nlohmann::json;

/// Levels of nesting in a header: the object, a tensor, and the tensor's lists.
constexpr int kHeaderDepth = 3;

/// Reads a list of whole numbers below 2^63.
std::vector<std::int64_t> sizes_of(const json& tensor, const char* member,
                                   const std::string& name) {
  const auto list = tensor.find(member);
  if (list == tensor.end() || !list->is_array())
    throw data_error("tensor {} has no list \"{}\"", name, member);
  std::vector<std::int64_t> sizes;
  for (const json& item : *list) {
    if (!item.is_number_unsigned() || item.get<std::uint64_t>() > INT64_MAX)
      throw data_error("\"{}\" of tensor {} holds {}, expected whole numbers", member, name,
                       item.dump());
    sizes.push_back(item.get<std::int64_t>());
  }
  return sizes;
}

TensorEntry parse_entry(const std::string& name, const json& tensor) {
  if (!tensor.is_object()) throw data_error("tensor {} is no object", name);
  TensorEntry entry;
  entry.name = name;
  entry.shape = sizes_of(tensor, "shape", name);
  const auto dtype = tensor.find("dtype");
  if (dtype == tensor.end() || !dtype->is_string())
    throw data_error("tensor {} has no \"dtype\"", name);
  entry.dtype = dtype->get<std::string>();
  const std::vector<std::int64_t> offsets = sizes_of(tensor, "data_offsets", name);
  if (offsets.size() != 2)
    throw data_error("\"data_offsets\" of tensor {} holds {} numbers, expected 2", name,
                     offsets.size());
  if (tensor.size() != 3)
    throw data_error("tensor {} has members beyond dtype, shape, data_offsets", name);
  entry.begin = static_cast<std::uint64_t>(offsets[0]);
  entry.end = static_cast<std::uint64_t>(offsets[1]);
  return entry;
}

std::map<std::string, std::string> parse_metadata(const json& object) {
  if (!object.is_object()) throw data_error("__metadata__ is no object");
  std::map<std::string, std::string> metadata;
  for (const auto& [key, value] : object.items()) {
    if (!value.is_string()) throw data_error("__metadata__ holds {}, expected text only", key);
    metadata[key] = value.get<std::string>();
  }
  return metadata;
}

std::uint64_t bits_of(const TensorEntry& entry) {
  for (const SafetensorsDType& dtype : kSafetensorsDTypes)
    if (dtype.name == entry.dtype) return dtype.bits;
  throw data_error("tensor {} has the unknown dtype {}", entry.name, entry.dtype);
}

/// Throws if the tensor's size does not follow from its shape and dtype.
void check_size(const TensorEntry& entry, std::uint64_t element_bits) {
  std::uint64_t bits = 1;
  bool overflow = false;
  for (const std::int64_t dim : entry.shape)
    overflow |= __builtin_mul_overflow(bits, static_cast<std::uint64_t>(dim), &bits);
  overflow |= __builtin_mul_overflow(bits, element_bits, &bits);
  if (overflow) throw data_error("the shape of tensor {} overflows", entry.name);
  if (bits % 8 != 0) throw data_error("tensor {} ends inside a byte", entry.name);
  if (entry.num_bytes() != bits / 8)
    throw data_error("tensor {} has {} bytes, its shape and dtype {} need {}", entry.name,
                     entry.num_bytes(), entry.dtype, bits / 8);
}

/// Sets the matrix that the tensor is read as.
void set_matrix(TensorEntry& entry, std::uint64_t element_bits) {
  if (element_bits % 8 != 0) {
    entry.element_bytes = 1;
    entry.whole = {.rows = static_cast<std::int64_t>(entry.num_bytes()), .columns = 1};
    return;
  }
  entry.element_bytes = element_bits / 8;
  entry.whole =
      as_matrix(entry.shape, static_cast<std::int64_t>(entry.num_bytes() / entry.element_bytes));
}

/// Throws unless the entries fill the data one after the other, each as its shape and dtype need.
void check_order(std::vector<TensorEntry>& tensors, std::uint64_t data_bytes) {
  std::uint64_t end = 0;
  for (TensorEntry& entry : tensors) {
    if (entry.begin != end || entry.end < entry.begin)
      throw data_error("tensor {} lies at {} to {}, expected it to begin at {}", entry.name,
                       entry.begin, entry.end, end);
    const std::uint64_t bits = bits_of(entry);
    check_size(entry, bits);
    set_matrix(entry, bits);
    end = entry.end;
  }
  if (end != data_bytes)
    throw data_error("the tensors have {} bytes, the file holds {} after its header", end,
                     data_bytes);
}

}  // namespace

SafetensorsHeader parse_safetensors_header(std::string_view text, std::uint64_t data_bytes) {
  if (!text.starts_with('{')) throw data_error("its header does not begin with {{");
  const json object = parse_json(text, kHeaderDepth);
  SafetensorsHeader header;
  for (const auto& [name, value] : object.items()) {
    if (name == "__metadata__")
      header.metadata = parse_metadata(value);
    else
      header.tensors.push_back(parse_entry(name, value));
  }
  std::stable_sort(header.tensors.begin(), header.tensors.end(),
                   [](const TensorEntry& a, const TensorEntry& b) {
                     return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
                   });
  check_order(header.tensors, data_bytes);
  attach_sums(header);
  return header;
}

}  // namespace troupe::stages
