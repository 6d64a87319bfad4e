#pragma once

#include <string>
#include <vector>

#include "launch/screen/frame.h"
#include "stages/corpus/tokenizers/text/utf8.h"

namespace troupe::test {

/// A row of a grid as UTF-8, without blanks at its end.
inline std::string row_of(const launch::Grid& grid, int y) {
  std::string row;
  for (int x = 0; x < grid.width(); ++x) row += stages::utf8_of(grid.at(x, y).glyph);
  return row.erase(row.find_last_not_of(' ') + 1);
}

/// The rows of a grid as a terminal without UTF-8 shows them, without blanks at their ends.
inline std::vector<std::string> rows_of(const launch::Grid& grid) {
  std::vector<std::string> rows;
  for (int y = 0; y < grid.height(); ++y) {
    std::string row;
    for (int x = 0; x < grid.width(); ++x) row += launch::ascii_of(grid.at(x, y).glyph);
    row.erase(row.find_last_not_of(' ') + 1);
    rows.push_back(std::move(row));
  }
  return rows;
}

/// All rows, a line each.
inline std::string text_of(const launch::Grid& grid) {
  std::string text;
  for (const std::string& row : rows_of(grid)) text += row + "\n";
  return text;
}

}  // namespace troupe::test
