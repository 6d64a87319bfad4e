#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "stages/files/safetensors/region_bytes.h"
#include "stages/files/safetensors/safetensors_layout.h"
#include "stages/storage/output_file.h"
#include "tensor/device/host_copies.h"
#include "tensor/values/region.h"

namespace troupe::stages {

/// A region of a tensor that one of a file's writers holds.
struct NamedRegion {
  std::string tensor;
  tensor::Region region;             ///< one of the layout's
  std::span<const std::byte> bytes;  ///< in host memory, or in a device's for write_regions()
  Order order = Order::rows;         ///< of the bytes
};

/// Writes a region, and then its checksum, into a file that has this layout. Calls `use`, if given,
/// for each block before it is written.
void write_region(OutputFile& file, const SafetensorsLayout& layout, const NamedRegion& named,
                  const BlockUse& use = {});

/// Writes and syncs regions of a file's float32 tensors, each with its checksum. Other threads and
/// processes may write other regions of the file at the same time, and each makes the file if it is
/// missing. In the place of the checksum of a region that nobody wrote are zeros, which a reader
/// takes for kUnsetSum. `written`, if given, grows by the bytes of each region that is written.
/// Throws Error{internal} with the path and the system's reason (DiskFull: once there is room, the
/// call may be made again), or if the file there has another layout, and NotFinite.
void write_regions(const std::filesystem::path& path, const SafetensorsLayout& layout,
                   const std::vector<NamedRegion>& regions, tensor::HostCopies& copies,
                   std::atomic<std::uint64_t>* written);

}  // namespace troupe::stages
