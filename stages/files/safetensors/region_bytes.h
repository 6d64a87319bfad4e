#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "stages/storage/input_file.h"
#include "stages/storage/output_file.h"
#include "tensor/values/region.h"

// Regions of matrices in files, moved in blocks of bounded size.

namespace troupe::stages {

/// Most bytes that are moved at once: so few that they are still in the cache when their checksum
/// is taken.
inline constexpr std::size_t kBlockBytes = std::size_t{256} << 10;

/// A matrix that lies row by row in a file.
struct StoredMatrix {
  std::uint64_t begin = 0;   ///< the file's byte at which the matrix begins
  std::int64_t columns = 0;  ///< elements of a row
  std::size_t element_bytes = 0;
};

/// How memory holds a region of a file's matrix: row by row as the file does, or column by column,
/// which is its transpose row by row. Columns are of float32 elements alone.
enum class Order { rows, columns };

/// What is done with a block of a region: its elements row by row, as the file has them.
using BlockUse =
    std::function<void(const tensor::Region& block, std::span<const std::byte> elements)>;

/// Reads the whole region block by block through `buffer`, which holds kBlockBytes, and calls `use`
/// for each. Returns the XXH64 of the region's bytes, row by row. Throws as InputFile does.
std::uint64_t read_region(const InputFile& file, const StoredMatrix& matrix,
                          const tensor::Region& region, std::span<std::byte> buffer,
                          const BlockUse& use);

/// Copies those elements of a block, which lie row by row, that are in `wanted` to `out`, which
/// holds `wanted` in this order.
void copy_block(const tensor::Region& block, std::span<const std::byte> elements,
                const tensor::Region& wanted, std::span<std::byte> out, std::size_t element_bytes,
                Order order = Order::rows);

/// Writes the region, whose elements are `bytes` in this order, to its place; columns through a
/// buffer of kBlockBytes. Calls `use`, if given, for each block before it is written. Returns the
/// XXH64 of the region's bytes, row by row. Throws as OutputFile does.
std::uint64_t write_region(OutputFile& file, const StoredMatrix& matrix,
                           const tensor::Region& region, std::span<const std::byte> bytes,
                           Order order = Order::rows, const BlockUse& use = {});

}  // namespace troupe::stages
