#include "stages/data_parallel/slices.h"

#include <algorithm>

#include "tensor/error.h"

namespace troupe::stages {

std::vector<Slice> cut_into_slices(const Bucket& bucket, std::span<const GradientPiece> pieces,
                                   int count) {
  const auto number_at = [&](std::int64_t element) {
    return static_cast<int>(std::ranges::lower_bound(pieces, element, {}, &GradientPiece::begin) -
                            pieces.begin());
  };
  const int end = number_at(bucket.end);
  const auto begin_of = [&](int piece) {
    return piece == end ? bucket.end : pieces[static_cast<std::size_t>(piece)].begin;
  };
  std::vector<Slice> slices;
  int first = number_at(bucket.begin);
  for (int i = 1; i <= count; ++i) {
    const std::int64_t even = bucket.begin + bucket.size() * i / count;
    int next = i == count ? end : std::max(first, number_at(even));
    if (next > first && begin_of(next) - even > even - begin_of(next - 1)) --next;
    slices.push_back(
        {.pieces = {.first = first, .end = next}, .begin = begin_of(first), .end = begin_of(next)});
    first = next;
  }
  return slices;
}

std::vector<std::vector<std::int64_t>> cut_rows(std::span<const tensor::Shape> shapes,
                                                std::span<const std::int64_t> offsets,
                                                std::span<const Bucket> buckets, int count) {
  std::vector<std::vector<std::int64_t>> cuts;
  const auto num_slices = static_cast<std::size_t>(count);
  for (const tensor::Shape& shape : shapes) {
    cuts.emplace_back(num_slices + 1, shape[0]);
    cuts.back().front() = 0;
  }
  if (count == 1) return cuts;
  const auto pieces = cut_into_pieces(shapes, offsets);
  for (const Bucket& bucket : buckets) {
    const auto slices = cut_into_slices(bucket, pieces, count);
    for (int i = bucket.parameters.first; i < bucket.parameters.end; ++i)
      for (std::size_t replica = 1; replica < num_slices; ++replica) {
        const std::int64_t rows = shapes[static_cast<std::size_t>(i)][0];
        const std::int64_t columns = shapes[static_cast<std::size_t>(i)].num_elements() / rows;
        const std::int64_t cut = slices[replica].begin - offsets[static_cast<std::size_t>(i)];
        cuts[static_cast<std::size_t>(i)][replica] =
            std::clamp<std::int64_t>(cut / columns, 0, rows);
      }
  }
  return cuts;
}

}  // namespace troupe::stages
