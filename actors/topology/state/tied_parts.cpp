#include "actors/topology/state/tied_parts.h"

#include <algorithm>
#include <cstddef>

#include "actors/topology/state/state_parts.h"
#include "tensor/errors/error.h"

namespace troupe::actors {
namespace {

/// A member of the group, and what it keeps of the matrix.
struct Holder {
  int stage = 0;
  int part = 0;             ///< of StateParts
  tensor::Region region{};  ///< of the whole matrix
  int copy = 0;             ///< which of those that keep the same it is
  int copies = 0;
};

std::vector<Holder> holders_of(const RunSpec& spec, const ClusterShape& shape,
                               const std::vector<int>& ranks) {
  const StateParts parts(spec, shape);
  const auto all = stages::parameters_of(spec.model);
  const auto matrix =
      std::ranges::find(all, stages::kEmbeddingLayer, &stages::ParameterInfo::layer);
  TROUPE_ASSERT(matrix != all.end());
  std::vector<Holder> holders;
  for (const int rank : ranks) {
    const int part = parts.kept_by(rank).front();
    const auto are_alike = [&](const Holder& before) { return before.part == part; };
    holders.push_back({.stage = place_of(shape.mesh, rank).stage,
                       .part = part,
                       .region = parts.region(part, *matrix),
                       .copy = static_cast<int>(std::ranges::count_if(holders, are_alike))});
  }
  for (Holder& holder : holders)
    holder.copies = static_cast<int>(std::ranges::count(holders, holder.part, &Holder::part));
  return holders;
}

/// What one member gives to another one.
tensor::Region given(const Holder& from, const Holder& to) {
  if (from.stage == to.stage || from.copy != to.copy % from.copies) return {};
  return intersection(from.region, to.region);
}

/// Elements of the matrix as those of what a member keeps of it: whole rows, one after the other.
stages::TiedParts::Part part_in(const Holder& own, const tensor::Region& region,
                                std::size_t member) {
  return {.member = static_cast<int>(member),
          .first = (region.row - own.region.row) * region.columns,
          .count = region.num_elements()};
}

}  // namespace

bool exchanges_tied_sums(const RunSpec& spec, const ClusterShape& shape) {
  const RunSpec::Width first = shape.mesh.width(shape.layout.chunks.front().stage);
  const RunSpec::Width last = shape.mesh.width(shape.layout.chunks.back().stage);
  const stages::DataParallelSpec& replicas = spec.data_parallel;
  return first.tp != last.tp || (first.dp != last.dp && (replicas.divides_gradients() ||
                                                         replicas.wire != tensor::DType::f32));
}

stages::TiedParts tied_parts_of(const RunSpec& spec, const ClusterShape& shape,
                                const std::vector<int>& tied_ranks, int rank) {
  const std::vector<Holder> holders = holders_of(spec, shape, tied_ranks);
  const auto self = std::ranges::find(tied_ranks, rank) - tied_ranks.begin();
  TROUPE_ASSERT(self < std::ssize(tied_ranks));
  const Holder& own = holders[static_cast<std::size_t>(self)];
  stages::TiedParts parts;
  for (std::size_t member = 0; member < holders.size(); ++member) {
    const Holder& other = holders[member];
    if (const auto sent = given(own, other); sent.num_elements() > 0)
      parts.sent.push_back(part_in(own, sent, member));
    if (const auto received = given(other, own); received.num_elements() > 0)
      parts.received.push_back(part_in(own, received, member));
    for (const Holder& to : holders)
      parts.largest = std::max(parts.largest, given(other, to).num_elements());
  }
  return parts;
}

}  // namespace troupe::actors
