#include "launch/host/suggest.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>

namespace troupe::launch {
std::size_t edit_distance(std::string_view a, std::string_view b) {
  // One row at a time.
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, replaced});
    }
  }
  return row.back();
}

std::string_view nearest(std::string_view word, std::span<const std::string_view> candidates) {
  // A word from a file may have any length; no known name has 64 characters.
  const std::string_view head = word.substr(0, 64);
  return *std::ranges::min_element(candidates, {},
                                   [&](std::string_view c) { return edit_distance(head, c); });
}

std::string quoted_list(std::span<const std::string_view> names) {
  return names.empty() ? "" : fmt::format("'{}'", fmt::join(names, "', '"));
}

}  // namespace troupe::launch
