#include "stages/checkpoint/region_writer.h"

#include <fmt/format.h>

#include "stages/storage/input_file.h"
#include "stages/storage/output_file.h"
#include "stages/storage/xxh64.h"
#include "tensor/error.h"

namespace troupe::stages {
namespace {

/// Makes the file unless there is one. Then opens it for writing.
OutputFile open_shared(const std::filesystem::path& path, const SafetensorsLayout& layout) {
  PublishedFile made(path);
  made.file().write(layout.head());
  made.file().resize(layout.size());
  made.publish_if_first();
  std::string head(layout.head().size(), '\0');
  InputFile::open(path).read(0, std::as_writable_bytes(std::span(head)));
  layout.unset_sums(head);
  if (head != layout.head())
    throw Error(ErrorKind::internal,
                fmt::format("{}: another writer has given it another layout", path.string()));
  return OutputFile::open(path);
}

}  // namespace

void write_region(OutputFile& file, const SafetensorsLayout& layout, const NamedRegion& named) {
  const auto& [tensor, region, bytes, order] = named;
  const std::string sum =
      to_hex(write_region(file, layout.matrix_of(tensor), region, bytes, order));
  file.write_at(layout.sum_of(tensor, region), std::as_bytes(std::span(sum)));
}

void write_regions(const std::filesystem::path& path, const SafetensorsLayout& layout,
                   const std::vector<NamedRegion>& regions, tensor::HostCopies& copies,
                   std::atomic<std::uint64_t>* written) {
  OutputFile file = open_shared(path, layout);
  for (const NamedRegion& region : regions) {
    write_region(file, layout,
                 {region.tensor, region.region, copies.on_host(region.bytes), region.order});
    if (written) *written += region.bytes.size();
  }
  file.sync_and_close();
}

}  // namespace troupe::stages
