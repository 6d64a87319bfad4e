#include "stages/files/safetensors/stored_tensor.h"

namespace troupe::stages {

StoredTensor stored_tensor(const ParameterInfo& info) {
  const auto& [name, first_row, rows, transposed] = info.stored;
  StoredTensor stored{.name = name, .shape = {rows}, .frozen = info.update.frozen};
  if (info.shape.rank() == 2)
    stored.shape =
        transposed ? tensor::Shape{info.shape[1], rows} : tensor::Shape{rows, info.shape[1]};
  return stored;
}

std::vector<StoredTensor> stored_tensors(const ModelConfig& model) {
  std::vector<StoredTensor> tensors;
  for (const ParameterInfo& info : parameters_of(model))
    if (info.stored.first_row == 0) tensors.push_back(stored_tensor(info));
  return tensors;
}

std::vector<StoredTensor> saved_tensors(const ModelConfig& model) {
  std::vector<StoredTensor> tensors = stored_tensors(model);
  if (model.adapter)
    std::erase_if(tensors, [](const StoredTensor& tensor) {
      return !tensor.name.starts_with(kAdapterPrefix);
    });
  return tensors;
}

tensor::Region stored_region(const ParameterInfo& info, const tensor::Region& region) {
  const auto& [row, rows, column, columns] = region;
  const std::int64_t stored_row = info.stored.first_row + row;
  if (info.stored.transposed)
    return {.row = column, .rows = columns, .column = stored_row, .columns = rows};
  return {.row = stored_row, .rows = rows, .column = column, .columns = columns};
}

Order stored_order(const ParameterInfo& info) {
  return info.stored.transposed ? Order::columns : Order::rows;
}

}  // namespace troupe::stages
