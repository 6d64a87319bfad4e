#include "stages/files/safetensors/region_sums.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <tuple>

#include "stages/storage/data_error.h"
#include "tensor/errors/error.h"

namespace troupe::stages {
namespace {

using tensor::Region;

constexpr std::string_view kSumPrefix = "xxh64:";

std::string text_of(const Region& region) {
  return fmt::format("[{}:{},{}:{}]", region.row, region.rows, region.column, region.columns);
}

/// The region that text_of() would spell like this, if there is one.
std::optional<Region> parse_region(std::string_view text) {
  std::array<std::int64_t, 4> numbers{};
  const char* at = text.data();
  const char* const end = text.data() + text.size();
  for (std::int64_t& number : numbers) {
    if (at == end) return std::nullopt;
    at = std::from_chars(at + 1, end, number).ptr;  // after [ : , :
  }
  const auto& [row, rows, column, columns] = numbers;
  const Region region{.row = row, .rows = rows, .column = column, .columns = columns};
  if (text != text_of(region)) return std::nullopt;
  return region;
}

/// A dim of regions.
struct Dim {
  std::int64_t Region::*begin;
  std::int64_t Region::*size;
};
constexpr Dim kRows{.begin = &Region::row, .size = &Region::rows};
constexpr Dim kColumns{.begin = &Region::column, .size = &Region::columns};

bool is_alike(const Region& a, const Region& b, const Dim& dim) {
  return a.*dim.begin == b.*dim.begin && a.*dim.size == b.*dim.size;
}

/// Whether the regions divide the whole into bands along `dim`, and each band along `other`. Both
/// follow each other without gaps.
bool divide(std::vector<RegionSum> sums, const Region& whole, const Dim& dim, const Dim& other) {
  std::ranges::sort(sums, {}, [&](const RegionSum& sum) {
    return std::pair(sum.region.*dim.begin, sum.region.*other.begin);
  });
  std::int64_t next = 0;
  for (auto band = sums.begin(); band != sums.end();) {
    const Region first = band->region;
    if (first.*dim.begin != next || first.*dim.size < 1 || first.*dim.size > whole.*dim.size - next)
      return false;
    std::int64_t next_in_band = 0;
    for (; band != sums.end() && is_alike(band->region, first, dim); ++band) {
      const Region& region = band->region;
      if (region.*other.begin != next_in_band || region.*other.size < 1 ||
          region.*other.size > whole.*other.size - next_in_band)
        return false;
      next_in_band += region.*other.size;
    }
    if (next_in_band != whole.*other.size) return false;
    next += first.*dim.size;
  }
  return next == whole.*dim.size;
}

bool divide(const std::vector<RegionSum>& sums, const Region& whole) {
  return divide(sums, whole, kRows, kColumns) || divide(sums, whole, kColumns, kRows);
}

bool comes_before(const RegionSum& a, const RegionSum& b) {
  return std::tie(a.region.row, a.region.column) < std::tie(b.region.row, b.region.column);
}

}  // namespace

std::string region_name(const std::string& tensor, const Region& region, const Region& whole) {
  return region == whole ? tensor : tensor + text_of(region);
}

std::string sum_key(const std::string& region_name) {
  return std::string(kSumPrefix) + region_name;
}

void attach_sums(SafetensorsHeader& header) {
  std::map<std::string_view, TensorEntry*> by_name;
  for (TensorEntry& entry : header.tensors) by_name[entry.name] = &entry;
  for (const auto& [key, sum] : header.metadata) {
    if (!key.starts_with(kSumPrefix)) continue;
    const std::string_view name = std::string_view(key).substr(kSumPrefix.size());
    if (const auto entry = by_name.find(name); entry != by_name.end()) {
      entry->second->sums.push_back({entry->second->whole, sum});
      continue;
    }
    const std::size_t bracket = std::min(name.rfind('['), name.size());
    const auto entry = by_name.find(name.substr(0, bracket));
    const std::optional<Region> region = parse_region(name.substr(bracket));
    if (entry != by_name.end() && region) entry->second->sums.push_back({*region, sum});
  }
  for (TensorEntry& entry : header.tensors) {
    std::ranges::sort(entry.sums, comes_before);
    const bool one = entry.sums.size() == 1 && entry.sums.front().region == entry.whole;
    if (!entry.sums.empty() && !one && !divide(entry.sums, entry.whole))
      throw data_error("the checksums of tensor {} do not cover it once", entry.name);
  }
}

}  // namespace troupe::stages
