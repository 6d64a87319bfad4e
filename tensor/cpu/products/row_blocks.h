#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

namespace troupe::tensor {

/// The numbers of rows that grouped products multiply at once, descending: oneDNN prepares each.
/// More rows at once would read a weight less often, and leave less to divide among threads.
inline constexpr std::array<std::int64_t, 12> kBlockRows = {128, 112, 96, 80, 64, 48,
                                                            32,  16,  8,  4,  2,  1};

/// Rows that are multiplied at once, of which the first `done` belong to the block before as well.
struct RowBlock {
  std::int64_t first = 0;
  std::int64_t rows = 0;
  std::int64_t done = 0;
};

/// Calls body(block) for the blocks of rows [begin, end), in their order: they are large as long as
/// they can be, and a smaller rest is multiplied with rows before it, again, rather than in pieces.
template <typename Body>
void for_each_row_block(std::int64_t begin, std::int64_t end, const Body& body) {
  for (std::int64_t at = begin; at < end;) {
    const std::int64_t left = end - at;
    const auto fits = [&](std::int64_t rows) { return rows <= left; };
    const auto largest = std::ranges::find_if(kBlockRows, fits);
    std::int64_t rows = *largest;
    if (rows < left && largest != kBlockRows.begin() && *(largest - 1) <= end - begin)
      rows = *(largest - 1);
    const std::int64_t done = std::max<std::int64_t>(0, at + rows - end);
    body(RowBlock{.first = at - done, .rows = rows, .done = done});
    at += rows - done;
  }
}

/// How many threads may share so many rows of a group, with one block each at least.
constexpr std::int64_t row_tasks(std::int64_t rows) {
  return rows == 0 ? 0 : std::max<std::int64_t>(1, rows / kBlockRows.front());
}

/// The rows of task `task` of them: a block, and in the last one what is left.
struct RowRange {
  std::int64_t begin = 0, end = 0;
};
constexpr RowRange rows_of_task(std::int64_t rows, std::int64_t task) {
  const std::int64_t begin = task * kBlockRows.front();
  return {begin, task + 1 == row_tasks(rows) ? rows : begin + kBlockRows.front()};
}

}  // namespace troupe::tensor
