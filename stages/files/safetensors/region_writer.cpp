#include "stages/files/safetensors/region_writer.h"

#include <fmt/format.h>

#include <algorithm>

#include "stages/files/safetensors/finite_values.h"
#include "stages/storage/input_file.h"
#include "stages/storage/output_file.h"
#include "stages/storage/xxh64.h"
#include "tensor/errors/error.h"

namespace troupe::stages {
namespace {

/// Throws if somebody has written into the file's head what is not of this layout. Zeros are what
/// nobody has written yet.
void check_head(const std::filesystem::path& path, const SafetensorsLayout& layout) {
  const InputFile file = InputFile::open(path);
  std::string head(std::min<std::uint64_t>(layout.head().size(), file.size()), '\0');
  file.read(0, std::as_writable_bytes(std::span(head)));
  for (const auto& [begin, bytes] : layout.parts_between_sums())
    for (std::size_t i = 0; i < bytes.size() && begin + i < head.size(); ++i)
      if (head[begin + i] != '\0' && head[begin + i] != bytes[i])
        throw Error(ErrorKind::internal,
                    fmt::format("{}: another writer has given it another layout", path.string()));
}

/// Opens the file, or makes it, and gives it its size and its head but for the checksums. All
/// writers do so, with the same bytes, at any time: none has to be the first, for which a file
/// system would need links or locks.
OutputFile open_shared(const std::filesystem::path& path, const SafetensorsLayout& layout) {
  OutputFile file = OutputFile::open(path);
  check_head(path, layout);
  file.resize(layout.size());
  for (const auto& [begin, bytes] : layout.parts_between_sums())
    file.write_at(begin, std::as_bytes(std::span(bytes)));
  return file;
}

}  // namespace

void write_region(OutputFile& file, const SafetensorsLayout& layout, const NamedRegion& named,
                  const BlockUse& use) {
  const auto& [tensor, region, bytes, order] = named;
  const std::string sum =
      to_hex(write_region(file, layout.matrix_of(tensor), region, bytes, order, use));
  file.write_at(layout.sum_of(tensor, region), std::as_bytes(std::span(sum)));
}

void write_regions(const std::filesystem::path& path, const SafetensorsLayout& layout,
                   const std::vector<NamedRegion>& regions, tensor::HostCopies& copies,
                   std::atomic<std::uint64_t>* written) {
  OutputFile file = open_shared(path, layout);
  for (const NamedRegion& region : regions) {
    write_region(file, layout,
                 {region.tensor, region.region, copies.on_host(region.bytes), region.order},
                 [&](const tensor::Region& block, std::span<const std::byte> elements) {
                   refuse_not_finite(region.tensor, block, elements);
                 });
    if (written) *written += region.bytes.size();
  }
  file.sync_and_close();
}

}  // namespace troupe::stages
