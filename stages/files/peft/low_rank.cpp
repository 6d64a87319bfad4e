#include "stages/files/peft/low_rank.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "stages/model/adapter.h"
#include "tensor/errors/error.h"

namespace troupe::stages {
namespace {

std::vector<float> read_matrix(const TensorPlace& place, const tensor::Region& region) {
  std::vector<float> floats(static_cast<std::size_t>(region.num_elements()));
  place.file->read_floats(*place.entry, region, floats);
  return floats;
}

}  // namespace

std::optional<LowRank> find_low_rank(const TensorMap& tensors, const std::string& weight,
                                     double scale) {
  constexpr std::string_view kWeight = ".weight";
  if (!weight.ends_with(kWeight)) return std::nullopt;
  const std::string_view module =
      std::string_view(weight).substr(0, weight.size() - kWeight.size());
  const auto find = [&](char matrix) {
    return tensors.find(fmt::format("{}{}.lora_{}.weight", kAdapterPrefix, module, matrix));
  };
  const auto a = find('A'), b = find('B');
  if (a == tensors.end() || b == tensors.end()) return std::nullopt;
  return LowRank{a->second, b->second, scale};
}

void add_low_rank(const LowRank& matrices, const tensor::Region& region, Order order,
                  std::span<float> out) {
  const std::int64_t rank = matrices.a.entry->whole.rows;
  const auto [row, rows, column, columns] = region;
  TROUPE_ASSERT(std::ssize(out) == region.num_elements());
  const auto a =
      read_matrix(matrices.a, {.row = 0, .rows = rank, .column = column, .columns = columns});
  const auto b = read_matrix(matrices.b, {.row = row, .rows = rows, .column = 0, .columns = rank});
  const auto scale = static_cast<float>(matrices.scale);
  std::vector<float> sum(static_cast<std::size_t>(columns));
  for (std::int64_t i = 0; i < rows; ++i) {
    std::ranges::fill(sum, 0.0f);
    for (std::int64_t k = 0; k < rank; ++k) {
      const float factor = b[static_cast<std::size_t>(i * rank + k)];
      const float* from = a.data() + k * columns;
      for (std::size_t j = 0; j < sum.size(); ++j) sum[j] += factor * from[j];
    }
    const std::size_t step = order == Order::rows ? 1 : static_cast<std::size_t>(rows);
    const auto first = static_cast<std::size_t>(order == Order::rows ? i * columns : i);
    for (std::size_t j = 0; j < sum.size(); ++j) out[first + j * step] += scale * sum[j];
  }
}

}  // namespace troupe::stages
