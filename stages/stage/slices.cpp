#include "stages/stage/slices.h"

#include <algorithm>

#include "tensor/errors/error.h"

namespace troupe::stages {

Slice slice_of(const Bucket& bucket, std::span<const GradientPiece> pieces, int count, int index) {
  const auto number_at = [&](std::int64_t element) {
    return static_cast<int>(std::ranges::lower_bound(pieces, element, {}, &GradientPiece::begin) -
                            pieces.begin());
  };
  const int first = number_at(bucket.begin), end = number_at(bucket.end);
  const auto begin_of = [&](int piece) {
    return piece == end ? bucket.end : pieces[static_cast<std::size_t>(piece)].begin;
  };
  const auto cut = [&](int i) {
    if (i == count) return end;
    const std::int64_t even = bucket.begin + bucket.size() * i / count;
    const int next = number_at(even);
    const bool is_far = next > first && begin_of(next) - even > even - begin_of(next - 1);
    return is_far ? next - 1 : next;
  };
  const PieceRange range{.first = cut(index), .end = cut(index + 1)};
  return {.pieces = range, .begin = begin_of(range.first), .end = begin_of(range.end)};
}

std::vector<Slice> cut_into_slices(const Bucket& bucket, std::span<const GradientPiece> pieces,
                                   int count) {
  std::vector<Slice> slices;
  for (int i = 0; i < count; ++i) slices.push_back(slice_of(bucket, pieces, count, i));
  return slices;
}

std::vector<std::vector<std::int64_t>> cut_rows(std::span<const tensor::Shape> shapes,
                                                std::span<const std::int64_t> offsets,
                                                std::span<const Bucket> buckets,
                                                std::span<const GradientPiece> pieces, int count) {
  std::vector<std::vector<std::int64_t>> cuts;
  const auto num_slices = static_cast<std::size_t>(count);
  for (const tensor::Shape& shape : shapes) {
    cuts.emplace_back(num_slices + 1, shape[0]);
    cuts.back().front() = 0;
  }
  if (count == 1) return cuts;
  for (const Bucket& bucket : buckets) {
    const auto slices = cut_into_slices(bucket, pieces, count);
    for (int i = bucket.parameters.first; i < bucket.parameters.end; ++i) {
      if (shapes[static_cast<std::size_t>(i)].num_elements() == 0) continue;
      for (std::size_t replica = 1; replica < num_slices; ++replica) {
        const std::int64_t rows = shapes[static_cast<std::size_t>(i)][0];
        const std::int64_t columns = shapes[static_cast<std::size_t>(i)].num_elements() / rows;
        const std::int64_t cut = slices[replica].begin - offsets[static_cast<std::size_t>(i)];
        cuts[static_cast<std::size_t>(i)][replica] =
            std::clamp<std::int64_t>(cut / columns, 0, rows);
      }
    }
  }
  return cuts;
}

}  // namespace troupe::stages
