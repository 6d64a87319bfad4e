#include "actors/worker/state/unit_state.h"

#include <algorithm>
#include <cstring>

#include "actors/topology/state/state_parts.h"
#include "tensor/errors/error.h"

namespace troupe::actors {
tensor::Tensor slice(const tensor::Tensor& x, std::int64_t begin, std::int64_t count) {
  TROUPE_ASSERT(x.dtype == tensor::DType::f32 && begin + count <= x.num_elements());
  return {.data = x.as<float>() + begin, .dtype = x.dtype, .shape = {count}};
}

void TensorRow::add(const tensor::Tensor& x) {
  tensors_.push_back(x);
  ends_.push_back(size() + x.num_elements());
}

void TensorRow::add(const TensorRow& row) {
  for (const tensor::Tensor& x : row.tensors_) add(x);
}

void TensorRow::clear() {
  tensors_.clear();
  ends_.clear();
}

template <typename Copy>
void TensorRow::each_part(std::int64_t begin, std::int64_t count, const Copy& copy) const {
  TROUPE_ASSERT(begin + count <= size());
  auto end = std::ranges::upper_bound(ends_, begin);
  for (std::int64_t done = 0; done < count; ++end) {
    const tensor::Tensor& x = tensors_[static_cast<std::size_t>(end - ends_.begin())];
    const std::int64_t first = *end - x.num_elements();  // of the tensor's elements in the row
    const std::int64_t at = begin + done;
    const std::int64_t part = std::min(count - done, *end - at);
    copy(slice(x, at - first, part), done, part);
    done += part;
  }
}

TensorRow TensorRow::part(std::int64_t begin, std::int64_t count) const {
  TensorRow row;
  each_part(begin, count, [&](const auto& part, auto, auto) { row.add(part); });
  return row;
}

void TensorRow::read(tensor::HostCopies& copies, std::int64_t begin,
                     const tensor::Tensor& piece) const {
  each_part(begin, piece.num_elements(), [&](const auto& part, auto at, auto count) {
    copies.read(part, slice(piece, at, count));
  });
}

void TensorRow::write(tensor::HostCopies& copies, std::int64_t begin,
                      const tensor::Tensor& piece) const {
  each_part(begin, piece.num_elements(), [&](const auto& part, auto at, auto count) {
    copies.write(slice(piece, at, count), part);
  });
}

void TensorRow::read_host(std::int64_t begin, const tensor::Tensor& piece) const {
  each_part(begin, piece.num_elements(), [&](const auto& part, auto at, auto count) {
    std::memcpy(slice(piece, at, count).data, part.data, part.num_bytes());
  });
}

void TensorRow::copy(tensor::Stream& stream, std::int64_t begin, const tensor::Tensor& to) const {
  each_part(begin, to.num_elements(), [&](const auto& part, auto at, auto count) {
    stream.device().ops().copy(stream, part, slice(to, at, count));
  });
}

std::map<int, UnitState> units_in(const stages::Stage& stage, const stages::ModelConfig& model,
                                  Kept kept) {
  const bool is_twin = kept == Kept::twin;
  std::map<int, UnitState> units;
  const auto all = stages::parameters_of(model);
  auto info = all.begin();  // both are in canonical order
  for (const stages::Parameter& parameter : stage.parameters()) {
    if (parameter.update.is_base) continue;
    info = std::ranges::find(info, all.end(), parameter.name, &stages::ParameterInfo::name);
    TROUPE_ASSERT(info != all.end());
    ParameterState& state = units[unit_of(*info, model)].emplace_back();
    state.info = *info;
    state.region = parameter.region_of(is_twin ? parameter.twin_slice : parameter.slice);
    if (state.region.num_elements() == 0) continue;
    state.tensors[0].add(is_twin ? parameter.twin_weight : parameter.kept_weight);
    state.tensors[1].add(is_twin ? parameter.twin_exp_avg : parameter.exp_avg);
    state.tensors[2].add(is_twin ? parameter.twin_exp_avg_sq : parameter.exp_avg_sq);
  }
  return units;
}

std::map<int, UnitState> units_in(const TensorRow& memory, std::span<const int> units,
                                  const stages::ModelConfig& model,
                                  const stages::Sharding& sharding) {
  std::map<int, UnitState> held;
  std::int64_t begin = 0;
  for (const auto& info : stages::parameters_of(model)) {
    const int unit = unit_of(info, model);
    if (info.update.is_base || std::ranges::find(units, unit) == units.end()) continue;
    ParameterState& state = held[unit].emplace_back();
    state.info = info;
    state.region = stages::region_of(info, model, sharding);
    const std::int64_t size = stages::local_shape(info, model, sharding).num_elements();
    for (TensorRow& tensor : state.present()) {
      tensor = memory.part(begin, size);
      begin += size;
    }
  }
  return held;
}

std::map<int, std::map<int, UnitState>> parts_in(const TensorRow& memory, const RunSpec& spec,
                                                 const ClusterShape& shape, int rank) {
  const StateParts parts(spec, shape);
  const std::vector<int> units = units_of(spec, shape, rank), kept = parts.kept_by(rank);
  if (state_sharding_of(spec, shape, rank).count == 1)
    return {{kept.front(), units_in(memory, units, spec.model, sharding_of(shape, rank))}};
  std::map<int, std::map<int, UnitState>> held;
  std::int64_t begin = 0;
  for (const int part : kept)
    for (const auto& info : stages::parameters_of(spec.model)) {
      const int unit = unit_of(info, spec.model);
      if (info.update.is_base || std::ranges::find(units, unit) == units.end()) continue;
      ParameterState& state = held[part][unit].emplace_back();
      state.info = info;
      state.region = parts.region(part, info);
      const std::int64_t size = state.region.num_elements();
      for (TensorRow& tensor : state.present()) {
        if (size > 0) tensor = memory.part(begin, size);
        begin += size;
      }
    }
  return held;
}

TensorRow moved_row(const UnitState& unit,
                    const std::function<tensor::Region(const stages::ParameterInfo&)>& region_of) {
  TensorRow row;
  for (const ParameterState& state : unit) {
    const tensor::Region& held = state.region;
    const tensor::Region moved = region_of(state.info);
    TROUPE_ASSERT(moved.num_elements() == 0 || intersection(held, moved) == moved);
    // Whole rows follow each other in memory; parts of rows do not.
    const bool is_whole = moved.columns == held.columns;
    const std::int64_t parts = is_whole ? 1 : moved.rows;
    for (const TensorRow& tensor : state.present())
      for (std::int64_t i = 0; i < parts && moved.num_elements() > 0; ++i)
        row.add(tensor.part((moved.row - held.row + i) * held.columns + moved.column - held.column,
                            moved.num_elements() / parts));
  }
  return row;
}

}  // namespace troupe::actors
