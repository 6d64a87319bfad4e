#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "stages/decoder/layers/layer_shape.h"

namespace troupe::stages {

/// Some rows of a microbatch.
struct RowRange {
  std::int64_t first = 0, count = 0;
};

/// Calls body with the parts of `size` rows that `range` consists of, the last one with what is
/// left.
template <typename Body>
void for_each_part(const RowRange& range, std::int64_t size, const Body& body) {
  for (std::int64_t done = 0; done < range.count; done += size)
    body(RowRange{range.first + done, std::min(size, range.count - done)});
}

/// Rows of a matrix, or of numbers one to a token. An empty tensor stays empty.
inline tensor::Tensor part_of(const tensor::Tensor& x, const RowRange& rows) {
  if (!x) return x;
  tensor::Tensor part = x;
  const std::int64_t width = x.shape.rank() == 2 ? x.shape[1] : 1;
  const auto skipped = static_cast<std::size_t>(rows.first * width) * tensor::size_of(x.dtype);
  part.data = static_cast<std::byte*>(x.data) + skipped;
  use_rows(part, rows.count);
  return part;
}

/// In which parts the head treats a microbatch, so that no buffer of it takes more than 256 MiB.
struct HeadParts {
  /// Rows whose weight gradient is one product. Later products are added to it, so that bits depend
  /// on this number: it follows from the vocabulary alone, and not from what may be chosen.
  std::int64_t block = 0;
  /// Rows whose logits are in memory at a time. If they are all rows, the gradient of the logits is
  /// kept from forward to backward; else what takes it computes it once more.
  std::int64_t rows = 0;
  bool are_divided = false;  ///< whether there are more rows than these

  /// Calls body with every part of a microbatch's rows. None crosses the border of a block.
  template <typename Body>
  void for_each(std::int64_t tokens, const Body& body) const {
    for_each_part({0, tokens}, block,
                  [&](const RowRange& of_block) { for_each_part(of_block, rows, body); });
  }
  /// The numbers of rows that products of a microbatch of `tokens` rows have, some of them twice.
  void add_row_counts(std::int64_t tokens, std::vector<std::int64_t>& counts) const;
};

/// `tokens`: the most that a microbatch has; `shards` divide the vocabulary among them.
HeadParts head_parts(const ModelConfig& model, std::int64_t tokens, int shards);

}  // namespace troupe::stages
