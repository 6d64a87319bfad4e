#include "actors/worker/unit_state.h"

#include <algorithm>

#include "actors/topology/state_plan.h"
#include "tensor/error.h"

namespace troupe::actors {
tensor::Tensor slice(const tensor::Tensor& x, std::int64_t begin, std::int64_t count) {
  TROUPE_ASSERT(x.dtype == tensor::DType::f32 && begin + count <= x.num_elements());
  return {.data = x.as<float>() + begin, .dtype = x.dtype, .shape = {count}};
}

void TensorRow::add(const tensor::Tensor& x) {
  tensors_.push_back(x);
  size_ += x.num_elements();
}

void TensorRow::clear() {
  tensors_.clear();
  size_ = 0;
}

template <typename Copy>
void TensorRow::each_part(std::int64_t begin, std::int64_t count, const Copy& copy) const {
  std::int64_t first = 0;  // index of the tensor's first element in the row
  std::int64_t done = 0;
  for (const tensor::Tensor& x : tensors_) {
    const std::int64_t end = first + x.num_elements();
    const std::int64_t at = begin + done;
    if (done < count && at < end) {
      const std::int64_t part = std::min(count - done, end - at);
      copy(slice(x, at - first, part), done, part);
      done += part;
    }
    first = end;
  }
  TROUPE_ASSERT(done == count);
}

TensorRow TensorRow::part(std::int64_t begin, std::int64_t count) const {
  TensorRow row;
  each_part(begin, count, [&](const auto& part, auto, auto) { row.add(part); });
  return row;
}

void TensorRow::read(tensor::Device& device, tensor::Stream& stream, std::int64_t begin,
                     const tensor::Tensor& piece) const {
  each_part(begin, piece.num_elements(), [&](const auto& part, auto at, auto count) {
    device.ops().copy(stream, part, slice(piece, at, count));
  });
}

void TensorRow::write(tensor::Device& device, tensor::Stream& stream, std::int64_t begin,
                      const tensor::Tensor& piece) const {
  each_part(begin, piece.num_elements(), [&](const auto& part, auto at, auto count) {
    device.ops().copy(stream, slice(piece, at, count), part);
  });
}

std::map<int, TensorRow> units_in(const stages::Stage& stage, const stages::ModelConfig& model) {
  std::map<int, TensorRow> units;
  const auto all = stages::parameters_of(model);
  auto info = all.begin();  // both are in canonical order
  for (const stages::Parameter& parameter : stage.parameters()) {
    info = std::ranges::find(info, all.end(), parameter.name, &stages::ParameterInfo::name);
    TROUPE_ASSERT(info != all.end());
    TensorRow& row = units[unit_of(*info, model)];
    row.add(parameter.weight);
    row.add(parameter.exp_avg);
    row.add(parameter.exp_avg_sq);
  }
  return units;
}

std::map<int, TensorRow> units_in(const TensorRow& memory, std::span<const int> units,
                                  const stages::ModelConfig& model) {
  std::map<int, TensorRow> rows;
  std::int64_t begin = 0;
  for (const auto& info : stages::parameters_of(model)) {
    const int unit = unit_of(info, model);
    if (std::ranges::find(units, unit) == units.end()) continue;
    const std::int64_t size = kTensorsOfParameter * info.shape.num_elements();
    const TensorRow tensors = memory.part(begin, size);
    for (const tensor::Tensor& x : tensors.tensors()) rows[unit].add(x);
    begin += size;
  }
  return rows;
}

}  // namespace troupe::actors
