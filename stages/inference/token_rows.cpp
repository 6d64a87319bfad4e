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

Rotations rotations_of(const ModelConfig& model) {
  Rotations rotations{rotary_of(model)};
  if (rotations[0] && model.local_rotary != rotations[0]) rotations[1] = model.local_rotary;
  return rotations;
}

int rotation_of(const Rotations& rotations, const LayerAttention& attention) {
  if (!attention.rotary) return -1;
  const int number = attention.rotary == rotations[0] ? 0 : 1;
  TROUPE_ASSERT(attention.rotary == rotations[static_cast<std::size_t>(number)]);
  return number;
}

TokenRows::TokenRows(const ModelConfig& model, std::int64_t most, tensor::Device& device)
    : most_(most),
      numbers_(device.allocate(bytes_of(DType::i32, 3 * most), tensor::MemoryKind::pinned)) {
  const Rotations rotations = rotations_of(model);
  for (std::size_t i = 0; i < rotations.size(); ++i) {
    if (!rotations[i]) continue;
    const std::int64_t half = rotary_dim(*rotations[i], model.head_dim) / 2;
    rotations_[i] = {.rotary = *rotations[i],
                     .angles = device.allocate(bytes_of(DType::f32, 2 * most * half),
                                               tensor::MemoryKind::pinned),
                     .inverse = std::vector<float>(static_cast<std::size_t>(half))};
  }
}

RowTensors TokenRows::tensors() const {
  const auto numbers = [&](int which) {
    return numbers_.view(DType::i32, {count_}, bytes_of(DType::i32, which * most_));
  };
  RowTensors rows{.ids = numbers(0), .sequences = numbers(1), .positions = numbers(2)};
  for (std::size_t i = 0; i < rotations_.size(); ++i) {
    if (!rotations_[i]) continue;
    const tensor::Buffer& angles = rotations_[i]->angles;
    const std::int64_t half = rotations_[i]->half();
    rows.angles[i] = {
        .cos = angles.view(DType::f32, {count_, half}),
        .sin = angles.view(DType::f32, {count_, half}, bytes_of(DType::f32, most_ * half))};
  }
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
    for (std::size_t i = 0; i < rotations_.size(); ++i)
      if (rotations_[i])
        rotate(*rotations_[i], rows.angles[i], static_cast<std::int64_t>(row), tokens[row]);
  }
}

/// As PyTorch computes the angles in transformers: in float32, each step rounded.
void TokenRows::rotate(Rotation& rotation, const RowAngles& angles, std::int64_t row,
                       const NewToken& token) {
  const tensor::Rotary& rotary = rotation.rotary;
  const std::int64_t length = tensor::depends_on_length(rotary) ? token.length : 1;
  if (length != rotation.inverse_length)
    tensor::inverse_frequencies(rotary, rotation.inverse_length = length, rotation.inverse);
  const float scaling = tensor::attention_scaling(rotary);
  const std::int64_t half = rotation.half();
  float* const cosines = angles.cos.as<float>() + row * half;
  float* const sines = angles.sin.as<float>() + row * half;
  for (std::int64_t i = 0; i < half; ++i) {
    const float angle =
        static_cast<float>(token.position) * rotation.inverse[static_cast<std::size_t>(i)];
    cosines[i] = static_cast<float>(std::cos(double{angle})) * scaling;
    sines[i] = static_cast<float>(std::sin(double{angle})) * scaling;
  }
}

}  // namespace troupe::stages
