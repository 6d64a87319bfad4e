#include "stages/inference/token_rows.h"

#include <algorithm>
#include <cmath>

#include "tensor/device/rotary.h"
#include "tensor/errors/error.h"

namespace troupe::stages {

using tensor::DType;
using tensor::Tensor;

namespace {

std::size_t bytes_of(DType dtype, std::int64_t elements) {
  return static_cast<std::size_t>(elements) * size_of(dtype);
}

}  // namespace

TokenRows::TokenRows(const ModelConfig& model, std::int64_t most, tensor::Device& device)
    : model_(model),
      most_(most),
      half_(rotary_of(model) ? model.head_dim / 2 : 0),
      numbers_(device.allocate(bytes_of(DType::i32, 3 * most), tensor::MemoryKind::pinned)),
      angles_(device.allocate(bytes_of(DType::f32, 2 * most * half_), tensor::MemoryKind::pinned)),
      inverse_(static_cast<std::size_t>(half_)) {}

RowTensors TokenRows::tensors() const {
  const auto numbers = [&](int which) {
    return numbers_.view(DType::i32, {count_}, bytes_of(DType::i32, which * most_));
  };
  RowTensors rows{.ids = numbers(0), .sequences = numbers(1), .positions = numbers(2)};
  if (half_ == 0) return rows;
  rows.cos = angles_.view(DType::f32, {count_, half_});
  rows.sin = angles_.view(DType::f32, {count_, half_}, bytes_of(DType::f32, most_ * half_));
  return rows;
}

void TokenRows::fill(std::span<const NewToken> tokens, std::int64_t count) {
  TROUPE_ASSERT(count <= most_ && static_cast<std::int64_t>(tokens.size()) <= count);
  count_ = count;
  const RowTensors rows = tensors();
  auto* const id = rows.ids.as<std::int32_t>();
  auto* const sequence = rows.sequences.as<std::int32_t>();
  auto* const position = rows.positions.as<std::int32_t>();
  std::fill_n(id, count, 0);
  std::fill_n(sequence, count, -1);
  std::fill_n(position, count, 0);
  for (std::size_t row = 0; row < tokens.size(); ++row) {
    id[row] = tokens[row].id;
    sequence[row] = tokens[row].sequence;
    position[row] = tokens[row].position;
    if (half_ > 0) rotate(rows, static_cast<std::int64_t>(row), tokens[row]);
  }
}

/// As PyTorch computes the angles in transformers: in float32, each step rounded.
void TokenRows::rotate(const RowTensors& rows, std::int64_t row, const NewToken& token) {
  const std::int64_t length = tensor::depends_on_length(model_.rotary) ? token.length : 1;
  if (length != inverse_length_)
    tensor::inverse_frequencies(model_.rotary, inverse_length_ = length, inverse_);
  const float scaling = tensor::attention_scaling(model_.rotary);
  float* const cosines = rows.cos.as<float>() + row * half_;
  float* const sines = rows.sin.as<float>() + row * half_;
  for (std::int64_t i = 0; i < half_; ++i) {
    const float angle = static_cast<float>(token.position) * inverse_[static_cast<std::size_t>(i)];
    cosines[i] = static_cast<float>(std::cos(double{angle})) * scaling;
    sines[i] = static_cast<float>(std::sin(double{angle})) * scaling;
  }
}

}  // namespace troupe::stages
