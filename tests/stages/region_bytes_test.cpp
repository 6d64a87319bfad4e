#include "stages/files/safetensors/region_bytes.h"

#include <boost/test/unit_test.hpp>
#include <numeric>

#include "stages/storage/xxh64.h"
#include "tests/support/mutate.h"
#include "tests/support/seed.h"
#include "tests/support/temp_dir.h"

BOOST_AUTO_TEST_SUITE(region_bytes_test)

using namespace troupe;
using namespace troupe::stages;
using tensor::Region;

namespace {

/// A matrix behind some other bytes of a file. Each element is its own index.
struct MatrixFile {
  test::TempDir dir;
  std::filesystem::path path = dir / "file";
  std::int64_t rows, columns;
  StoredMatrix matrix{.begin = 5, .columns = columns, .element_bytes = sizeof(std::int32_t)};

  MatrixFile(std::int64_t num_rows, std::int64_t num_columns)
      : rows(num_rows), columns(num_columns) {
    OutputFile::create(path).resize(matrix.begin + static_cast<std::size_t>(rows * columns) * 4);
  }
  Region whole() const { return {.rows = rows, .columns = columns}; }
  /// The elements of a region, row by row.
  std::vector<std::int32_t> elements(const Region& region) const {
    std::vector<std::int32_t> all;
    for (std::int64_t row = region.row; row < region.row + region.rows; ++row)
      for (std::int64_t column = region.column; column < region.column + region.columns; ++column)
        all.push_back(static_cast<std::int32_t>(row * columns + column));
    return all;
  }
  std::uint64_t sum_of(const Region& region) const {
    const auto all = elements(region);
    return xxh64(std::as_bytes(std::span(all)));
  }
  std::uint64_t write(const Region& region, Order order = Order::rows) {
    OutputFile file = OutputFile::open(path);
    const auto all = in_order(region, elements(region), order);
    return write_region(file, matrix, region, std::as_bytes(std::span(all)), order);
  }
  /// Elements that lie row by row, in an order.
  static std::vector<std::int32_t> in_order(const Region& region,
                                            const std::vector<std::int32_t>& by_rows, Order order) {
    if (order == Order::rows) return by_rows;
    std::vector<std::int32_t> by_columns;
    for (std::int64_t column = 0; column < region.columns; ++column)
      for (std::int64_t row = 0; row < region.rows; ++row)
        by_columns.push_back(by_rows[static_cast<std::size_t>(row * region.columns + column)]);
    return by_columns;
  }
  /// Reads `stored` and returns `wanted`, in which -1 stands for what was not read.
  std::vector<std::int32_t> read(const Region& stored, const Region& wanted,
                                 Order order = Order::rows) const {
    std::vector<std::int32_t> out(static_cast<std::size_t>(wanted.num_elements()), -1);
    std::vector<std::byte> buffer(kBlockBytes);
    const std::uint64_t sum =
        read_region(InputFile::open(path), matrix, stored, buffer,
                    [&](const Region& block, std::span<const std::byte> elements) {
                      copy_block(block, elements, wanted, std::as_writable_bytes(std::span(out)),
                                 sizeof(std::int32_t), order);
                    });
    BOOST_TEST(sum == sum_of(stored));
    return out;
  }
  /// What read() has to return.
  std::vector<std::int32_t> common(const Region& stored, const Region& wanted) const {
    std::vector<std::int32_t> all = elements(wanted);
    for (std::int32_t& element : all) {
      const Region here{element / columns, 1, element % columns, 1};
      if (tensor::intersection(here, stored).num_elements() == 0) element = -1;
    }
    return all;
  }
};

/// `parts` regions that divide the matrix by rows or by columns, not all of one size.
std::vector<Region> divided(const Region& whole, bool by_rows, std::int64_t parts) {
  std::vector<Region> regions(static_cast<std::size_t>(parts), whole);
  for (std::int64_t i = 0; i < parts; ++i) {
    Region& region = regions[static_cast<std::size_t>(i)];
    std::int64_t& begin = by_rows ? region.row : region.column;
    std::int64_t& size = by_rows ? region.rows : region.columns;
    begin = i * size / parts;
    size = (i + 1) * size / parts - begin;
  }
  return regions;
}

/// Some numbers of rows and columns: of blocks of many rows, of one row, and of a part of a row.
const std::pair<std::int64_t, std::int64_t> kShapes[] = {
    {1, 1}, {7, 5}, {1000, 301}, {3, 65536}, {5, 40000}, {2, 200001}, {100000, 1}};

}  // namespace

BOOST_AUTO_TEST_CASE(written_regions_make_the_matrix) {
  for (const auto& [rows, columns] : kShapes)
    for (const bool by_rows : {true, false}) {
      MatrixFile file(rows, columns);
      const std::int64_t parts = std::min<std::int64_t>(4, by_rows ? rows : columns);
      Order order = Order::rows;
      for (const Region& region : divided(file.whole(), by_rows, parts)) {
        BOOST_TEST(file.write(region, order) == file.sum_of(region));
        order = order == Order::rows ? Order::columns : Order::rows;
      }
      BOOST_TEST((file.read(file.whole(), file.whole()) == file.elements(file.whole())));
      const std::string content = test::content_of(file.path);
      BOOST_TEST(content.size() ==
                 file.matrix.begin + static_cast<std::size_t>(rows * columns) * 4);
      BOOST_TEST(content.substr(0, 5) == std::string(5, '\0'));
    }
}

BOOST_AUTO_TEST_CASE(the_elements_in_common_are_read_and_no_others) {
  std::mt19937_64 random(test::fresh_seed());
  const auto piece = [&](std::int64_t size) {
    const auto begin = static_cast<std::int64_t>(test::below(random, size));
    return std::pair(begin, 1 + static_cast<std::int64_t>(test::below(random, size - begin)));
  };
  for (const auto& [all_rows, all_columns] : kShapes) {
    MatrixFile file(all_rows, all_columns);
    file.write(file.whole());
    for (int round = 0; round < 6; ++round) {
      const auto region = [&] {
        const auto [row, rows] = piece(file.rows);
        const auto [column, columns] = piece(file.columns);
        return Region{row, rows, column, columns};
      };
      const Region stored = region(), wanted = region();
      const auto common = file.common(stored, wanted);
      BOOST_TEST((file.read(stored, wanted) == common));
      BOOST_TEST((file.read(stored, wanted, Order::columns) ==
                  MatrixFile::in_order(wanted, common, Order::columns)));
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()
