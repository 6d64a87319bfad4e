#include "actors/topology/boundary.h"

#include <algorithm>
#include <numeric>

#include "stages/stage/row_sizes.h"

namespace troupe::actors {
namespace {

using transport::Edge;
using transport::Piece;

/// The most rows of a microbatch in a replica of a stage.
std::int64_t rows_of(const RunSpec& spec, const RunSpec::Mesh& mesh, int stage) {
  const auto& batch = spec.batch;
  const int multiple = row_multiple_of(spec, mesh);
  return stages::row_sizes(batch.documents, mesh.micro_of(stage, batch.micro) * batch.seq_len,
                           multiple > 0 ? multiple : mesh.width(stage).tp, mesh.lanes_of(stage))
      .capacity;
}

/// The piece that some of the elements of a tensor are.
Piece piece_of(const ElementSpan& elements, const ElementSpan& tensor) {
  if (elements == tensor) return {};
  return {.first_row = elements.first - tensor.first, .rows = tensor.size()};
}

/// All ranks of a stage, in the order of their elements.
std::vector<RankPlace> places_of(const RunSpec::Mesh& mesh, int stage) {
  std::vector<RankPlace> places;
  const auto [dp, tp] = mesh.width(stage);
  for (int replica = 0; replica < dp; ++replica)
    for (int shard = 0; shard < tp; ++shard)
      places.push_back({.replica = replica, .stage = stage, .shard = shard});
  return places;
}

/// The edge between two ranks, which carries the elements that both have.
Edge edge_between(const Boundary& boundary, const RunSpec& spec, const RunSpec::Mesh& mesh,
                  const RankPlace& from, const RankPlace& to) {
  return {.from = rank_at(mesh, from),
          .to = rank_at(mesh, to),
          .chunk = boundary.chunk,
          .direction = boundary.direction,
          .dtype = spec.model.dtype,
          .shape = {},
          .slots = boundary.slots};
}

/// A rank's slice if each replica of its stage has so many elements.
ElementSpan slice_of(std::int64_t of_replica, const RunSpec::Mesh& mesh, const RankPlace& place) {
  const std::int64_t own = of_replica / mesh.width(place.stage).tp;
  const std::int64_t first = place.replica * of_replica + place.shard * own;
  return {first, first + own};
}

}  // namespace

int row_multiple_of(const RunSpec& spec, const RunSpec::Mesh& mesh) {
  const bool drops = spec.model.hidden_dropout > 0 || spec.model.attention_dropout > 0;
  if (mesh.is_even() || spec.batch.documents != stages::Documents::packed) return 0;
  if (mesh.tp == 1 && !drops) return 0;
  int multiple = 1;
  for (const RunSpec::Width& width : mesh.widths) multiple = std::lcm(multiple, width.tp);
  return multiple;
}

int pieces_of(const RunSpec::Mesh& mesh, int stage) {
  const auto ranks = [](const RunSpec::Width& width) { return width.dp * width.tp; };
  int all = 1;
  for (const RunSpec::Width& width : mesh.widths) all = std::lcm(all, ranks(width));
  return all / ranks(mesh.width(stage));
}

ElementSpan elements_at(const RunSpec& spec, const RunSpec::Mesh& mesh, const RankPlace& place) {
  return slice_of(rows_of(spec, mesh, place.stage) * spec.model.hidden_size, mesh, place);
}

std::vector<std::pair<int, int>> ranks_that_meet(const RunSpec::Mesh& mesh, int stage, int next) {
  const auto ranks = [&](int s) { return std::int64_t{mesh.width(s).dp} * mesh.width(s).tp; };
  const std::int64_t elements = ranks(stage) * ranks(next);  // which both stages divide evenly
  const auto slice = [&](const RankPlace& place) {
    return slice_of(elements / mesh.width(place.stage).dp, mesh, place);
  };
  std::vector<std::pair<int, int>> pairs;
  for (const RankPlace& a : places_of(mesh, stage))
    for (const RankPlace& b : places_of(mesh, next))
      if (std::max(slice(a).first, slice(b).first) < std::min(slice(a).end, slice(b).end))
        pairs.emplace_back(rank_at(mesh, a), rank_at(mesh, b));
  return pairs;
}

std::vector<Edge> edges_over(const Boundary& boundary, const RunSpec& spec,
                             const RunSpec::Mesh& mesh, const RankPlace& place) {
  std::vector<Edge> edges;
  if (mesh.width(boundary.from_stage) == mesh.width(boundary.to_stage)) {
    RankPlace from = place, to = place;
    from.stage = boundary.from_stage;
    to.stage = boundary.to_stage;
    edges.push_back(edge_between(boundary, spec, mesh, from, to));
    edges.back().shape = stages::edge_shape(rows_of(spec, mesh, place.stage),
                                            spec.model.hidden_size, sharding_at(mesh, place));
    return edges;
  }
  const auto meet = [&](const RankPlace& from, const RankPlace& to) {
    const ElementSpan has = elements_at(spec, mesh, from), takes = elements_at(spec, mesh, to);
    const ElementSpan both{std::max(has.first, takes.first), std::min(has.end, takes.end)};
    if (both.first >= both.end) return;
    Edge& edge = edges.emplace_back(edge_between(boundary, spec, mesh, from, to));
    edge.shape = {both.size()};
    edge.sent = piece_of(both, has);
    edge.received = piece_of(both, takes);
  };
  if (place.stage == boundary.from_stage)
    for (const RankPlace& to : places_of(mesh, boundary.to_stage)) meet(place, to);
  else
    for (const RankPlace& from : places_of(mesh, boundary.from_stage)) meet(from, place);
  return edges;
}

}  // namespace troupe::actors
