#include "actors/worker/state/parked_state.h"

namespace troupe::actors {
namespace {

/// Calls visit(row) for all tensors of the parts, in one order.
template <typename Visit>
void each_row(std::map<int, StateMover::Units>& parts, const Visit& visit) {
  for (auto& [part, units] : parts)
    for (auto& [unit, parameters] : units)
      for (ParameterState& parameter : parameters)
        for (TensorRow& row : parameter.present()) visit(row);
}

}  // namespace

ParkedState::ParkedState(const std::map<int, StateMover::Units>& parts, tensor::Device& device)
    : parts_(parts) {
  std::int64_t elements = 0;
  each_row(parts_, [&](const TensorRow& row) { elements += row.size(); });
  memory_ = device.allocate(static_cast<std::size_t>(elements) * sizeof(float),
                            tensor::MemoryKind::pinned);
  const tensor::Tensor all = memory_.view(tensor::DType::f32, {elements});
  const auto stream = device.make_stream();
  std::int64_t begin = 0;
  each_row(parts_, [&](TensorRow& row) {
    const tensor::Tensor parked = slice(all, begin, row.size());
    begin += row.size();
    row.copy(*stream, 0, parked);
    row.clear();
    row.add(parked);
  });
  stream->synchronize();
}

}  // namespace troupe::actors
