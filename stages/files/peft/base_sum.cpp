#include "stages/files/peft/base_sum.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstddef>
#include <span>

#include "stages/storage/xxh64.h"

namespace troupe::stages {
namespace {

/// Training changes all elements of a tensor, so that a few tell as much as all.
constexpr std::size_t kFirstBytes = 4096;

}  // namespace

std::string base_sum(const TensorMap& weights) {
  std::string all;
  for (const auto& [name, place] : weights) {
    const TensorEntry& entry = *place.entry;
    all += fmt::format("{} {} [{}] ", name, entry.dtype, fmt::join(entry.shape, ", "));
    const auto bytes = place.file->first_bytes(entry, kFirstBytes);
    all.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  return to_hex(xxh64(std::as_bytes(std::span(all))));
}

}  // namespace troupe::stages
