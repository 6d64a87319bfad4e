#include "stages/files/safetensors/region_bytes.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "stages/storage/xxh64.h"
#include "tensor/errors/error.h"

namespace troupe::stages {
namespace {

using tensor::Region;

std::size_t bytes_of(const Region& region, std::size_t element_bytes) {
  return static_cast<std::size_t>(region.num_elements()) * element_bytes;
}

/// Divides the region into blocks of at most kBlockBytes: whole rows of it, or pieces of one row.
/// Visits them in the order in which the region's bytes follow each other row by row.
template <typename Visit>
void for_each_block(const Region& region, std::size_t element_bytes, Visit&& visit) {
  if (region.num_elements() == 0) return;
  const auto most = static_cast<std::int64_t>(kBlockBytes / element_bytes);
  const std::int64_t rows = std::max<std::int64_t>(1, most / region.columns);
  for (Region block = region; block.row < region.row + region.rows; block.row += rows) {
    block.rows = std::min(rows, region.row + region.rows - block.row);
    for (std::int64_t done = 0; done < region.columns; done += block.columns) {
      block.column = region.column + done;
      block.columns = std::min(most, region.columns - done);
      visit(block);
    }
  }
}

/// Visits the block's runs of adjacent bytes of the file: the byte of the file at which the run
/// begins, and the run within `bytes`, which holds the block row by row.
template <typename Byte, typename Visit>
void for_each_run(const StoredMatrix& matrix, const Region& block, std::span<Byte> bytes,
                  Visit&& visit) {
  const bool adjacent = block.columns == matrix.columns;
  const std::int64_t runs = adjacent ? 1 : block.rows;
  const std::size_t run_bytes = bytes.size() / static_cast<std::size_t>(runs);
  for (std::int64_t run = 0; run < runs; ++run) {
    const std::int64_t first = (block.row + run) * matrix.columns + block.column;
    visit(matrix.begin + static_cast<std::uint64_t>(first) * matrix.element_bytes,
          bytes.subspan(static_cast<std::size_t>(run) * run_bytes, run_bytes));
  }
}

/// The first byte of an element in memory that holds its region in this order.
std::size_t place_in(const Region& region, Order order, std::int64_t row, std::int64_t column,
                     std::size_t element_bytes) {
  const std::int64_t r = row - region.row, c = column - region.column;
  const std::int64_t element = order == Order::rows ? r * region.columns + c : c * region.rows + r;
  return static_cast<std::size_t>(element) * element_bytes;
}

/// Copies the elements that both regions have, of which one lies by rows and the other by columns.
/// Follows the columns, because what lies by rows is a block, which is in the cache.
void copy_transposed(const Region& from_region, Order from_order, std::span<const std::byte> from,
                     const Region& to_region, Order to_order, std::span<std::byte> to) {
  constexpr std::size_t kBytes = sizeof(float);
  const Region common = tensor::intersection(from_region, to_region);
  for (std::int64_t column = common.column; column < common.column + common.columns; ++column)
    for (std::int64_t row = common.row; row < common.row + common.rows; ++row)
      std::memcpy(to.data() + place_in(to_region, to_order, row, column, kBytes),
                  from.data() + place_in(from_region, from_order, row, column, kBytes), kBytes);
}

/// Copies the elements that both regions have. Each span holds its region row by row.
void copy_common(const Region& from_region, std::span<const std::byte> from,
                 const Region& to_region, std::span<std::byte> to, std::size_t element_bytes) {
  const Region common = tensor::intersection(from_region, to_region);
  for (std::int64_t row = common.row; row < common.row + common.rows; ++row) {
    const auto place = [&](const Region& region) {
      return place_in(region, Order::rows, row, common.column, element_bytes);
    };
    std::memcpy(to.data() + place(to_region), from.data() + place(from_region),
                static_cast<std::size_t>(common.columns) * element_bytes);
  }
}

}  // namespace

std::uint64_t read_region(const InputFile& file, const StoredMatrix& matrix, const Region& region,
                          std::span<std::byte> buffer, const BlockUse& use) {
  Xxh64 sum;
  for_each_block(region, matrix.element_bytes, [&](const Region& block) {
    const auto bytes = buffer.first(bytes_of(block, matrix.element_bytes));
    for_each_run(matrix, block, bytes,
                 [&](std::uint64_t at, std::span<std::byte> run) { file.read(at, run); });
    sum.update(bytes);
    use(block, bytes);
  });
  return sum.digest();
}

void copy_block(const Region& block, std::span<const std::byte> elements, const Region& wanted,
                std::span<std::byte> out, std::size_t element_bytes, Order order) {
  TROUPE_ASSERT(out.size() == bytes_of(wanted, element_bytes));
  TROUPE_ASSERT(order == Order::rows || element_bytes == sizeof(float));
  if (order == Order::rows)
    copy_common(block, elements, wanted, out, element_bytes);
  else
    copy_transposed(block, Order::rows, elements, wanted, order, out);
}

std::uint64_t write_region(OutputFile& file, const StoredMatrix& matrix, const Region& region,
                           std::span<const std::byte> bytes, Order order, const BlockUse& use) {
  TROUPE_ASSERT(order == Order::rows || matrix.element_bytes == sizeof(float));
  TROUPE_ASSERT(bytes.size() == bytes_of(region, matrix.element_bytes));
  Xxh64 sum;
  std::vector<std::byte> turned(order == Order::columns ? kBlockBytes : 0);
  for_each_block(region, matrix.element_bytes, [&](const Region& block) {
    const std::size_t size = bytes_of(block, matrix.element_bytes);
    std::span<const std::byte> part;
    if (order == Order::rows) {
      part = bytes.first(size);
      bytes = bytes.subspan(size);
    } else {
      copy_transposed(region, order, bytes, block, Order::rows, turned);
      part = std::span(turned).first(size);
    }
    if (use) use(block, part);
    sum.update(part);
    for_each_run(matrix, block, part,
                 [&](std::uint64_t at, std::span<const std::byte> run) { file.write_at(at, run); });
  });
  return sum.digest();
}

}  // namespace troupe::stages
