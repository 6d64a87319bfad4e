#include "stages/files/safetensors/stored_tensor.h"

#include <algorithm>

namespace troupe::stages {

StoredTensor stored_tensor(const ParameterInfo& info) {
  const std::int64_t rows = info.stored.rows;
  StoredTensor stored{.name = info.stored.tensor, .shape = {rows}, .frozen = info.update.frozen};
  if (info.shape.rank() == 2)
    stored.shape = info.stored.transposed ? tensor::Shape{info.shape[1], rows}
                                          : tensor::Shape{rows, info.shape[1]};
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

std::vector<tensor::Region> stored_regions(const ParameterInfo& info,
                                           const tensor::Region& region) {
  const StoredAs& stored = info.stored;
  const auto& [row, rows, column, columns] = region;
  if (stored.transposed)
    return {{.row = column, .rows = columns, .column = stored.first_row + row, .columns = rows}};
  if (stored.turn_rows == 0)
    return {{.row = stored.first_row + row, .rows = rows, .column = column, .columns = columns}};
  std::vector<tensor::Region> pieces;
  for (std::int64_t at = row; at < row + rows;) {
    const std::int64_t turn = at / stored.turn_rows, within = at % stored.turn_rows;
    const std::int64_t count = std::min(stored.turn_rows - within, row + rows - at);
    pieces.push_back({.row = stored.first_row + turn * stored.turn_stride + within,
                      .rows = count,
                      .column = column,
                      .columns = columns});
    at += count;
  }
  return pieces;
}

Order stored_order(const ParameterInfo& info) {
  return info.stored.transposed ? Order::columns : Order::rows;
}

}  // namespace troupe::stages
