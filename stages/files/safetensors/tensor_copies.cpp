#include "stages/files/safetensors/tensor_copies.h"

#include <algorithm>
#include <cstddef>
#include <string_view>
#include <utility>
#include <vector>

#include "stages/files/safetensors/finite_values.h"
#include "stages/files/safetensors/region_writer.h"
#include "stages/storage/output_file.h"
#include "tensor/errors/error.h"

namespace troupe::stages {
namespace {

using tensor::Region;

/// Most bytes of a region without a checksum, but for one that is a single row.
constexpr std::int64_t kRegionBytes = std::int64_t{16} << 20;

/// The regions in which a tensor is copied.
std::vector<Region> regions_of(const TensorEntry& entry) {
  std::vector<Region> regions;
  for (const RegionSum& sum : entry.sums) regions.push_back(sum.region);
  if (!regions.empty()) return regions;
  const Region& whole = entry.whole;
  const auto row_bytes =
      std::max<std::int64_t>(1, whole.columns * static_cast<std::int64_t>(entry.element_bytes));
  const std::int64_t most = std::max<std::int64_t>(1, kRegionBytes / row_bytes);
  for (std::int64_t row = 0; row < whole.rows; row += most) {
    regions.push_back(whole);
    regions.back().row = row;
    regions.back().rows = std::min(most, whole.rows - row);
  }
  return regions;
}

/// The bytes of a region in a copy of this dtype.
std::vector<std::byte> read(const TensorPlace& place, const Region& region,
                            std::optional<WeightDType> dtype, const TensorChange& change) {
  const TensorEntry& entry = *place.entry;
  const ElementsOf of{.tensor = entry.name, .file = place.file->path(), .region = region};
  const auto elements = static_cast<std::size_t>(region.num_elements());
  const auto stored = weight_dtype(entry.dtype);
  if (!change && (!dtype || dtype == stored)) {
    std::vector<std::byte> bytes(elements * entry.element_bytes);
    place.file->read(entry, region, bytes);
    if (const auto fault = not_finite(of, bytes, *stored)) throw *fault;
    return bytes;
  }
  const WeightDType copied = dtype.value_or(*stored);
  std::vector<float> floats(elements);
  place.file->read_floats(entry, region, floats);
  if (change) change(region, floats);
  std::vector<std::byte> bytes(elements * size_of(copied));
  narrow(floats, copied, bytes);
  if (const auto fault = out_of_range(of, floats, bytes, copied)) throw *fault;
  return bytes;
}

TensorLayout layout_of(const std::string& name, const TensorEntry& entry,
                       std::optional<WeightDType> dtype) {
  return {.name = name,
          .dtype = dtype ? traits_of(*dtype).stored : std::string_view(entry.dtype),
          .shape = tensor::Shape(entry.shape),
          .regions = regions_of(entry)};
}

}  // namespace

SafetensorsLayout copied_layout(const TensorMap& tensors, const CopiedAs& as) {
  std::vector<TensorLayout> layouts;
  for (const auto& [name, place] : tensors)
    layouts.push_back(layout_of(name, *place.entry, as.dtype));
  return SafetensorsLayout(std::move(layouts));
}

SafetensorsFile copy_tensors(const TensorMap& tensors, const SafetensorsLayout& layout,
                             const std::filesystem::path& path, const CopiedAs& as,
                             const std::stop_token& stop, ProgressSum& written) {
  OutputFile file = OutputFile::create(path);
  file.write(layout.head());
  file.resize(layout.size());
  for (const auto& [name, place] : tensors) {
    const TensorChange change = as.change ? as.change(name) : TensorChange();
    for (const Region& region : regions_of(*place.entry)) {
      if (stop.stop_requested()) throw Error(ErrorKind::retry, "stopped half way");
      const std::vector<std::byte> bytes = read(place, region, as.dtype, change);
      write_region(file, layout, {name, region, bytes});
      written.add(bytes.size());
    }
  }
  file.sync_and_close();
  return SafetensorsFile::open(path);
}

}  // namespace troupe::stages
