#include "stages/stage/gradient_pieces.h"

#include <algorithm>

#include "tensor/device/ops.h"
#include "tensor/errors/error.h"

namespace troupe::stages {
using tensor::Tensor;

std::int64_t rows_of_piece(std::int64_t rows, std::int64_t columns) {
  constexpr std::int64_t kMostPieces = 256, kFewestElements = 4096;
  const auto divide_up = [](std::int64_t a, std::int64_t b) { return (a + b - 1) / b; };
  return std::max(divide_up(rows, kMostPieces), divide_up(kFewestElements, columns));
}

std::vector<GradientPiece> cut_into_pieces(std::span<const tensor::Shape> shapes,
                                           std::span<const std::int64_t> offsets) {
  std::vector<GradientPiece> pieces;
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    if (shapes[i].num_elements() == 0) continue;
    const std::int64_t rows = shapes[i][0], columns = shapes[i].num_elements() / rows;
    const std::int64_t step = rows_of_piece(rows, columns);
    for (std::int64_t row = 0; row < rows; row += step)
      pieces.push_back({.parameter = static_cast<int>(i),
                        .row = row,
                        .begin = offsets[i] + row * columns,
                        .end = offsets[i] + std::min(rows, row + step) * columns});
  }
  return pieces;
}

std::vector<GradientPiece> cut_into_pieces(std::span<const Parameter> parameters) {
  std::vector<tensor::Shape> shapes;
  std::vector<std::int64_t> offsets;
  for (const Parameter& parameter : parameters) {
    shapes.push_back(parameter.gradient ? parameter.gradient.shape : tensor::Shape{0});
    offsets.push_back(parameter.offset);
  }
  return cut_into_pieces(shapes, offsets);
}

std::int64_t GradientSquares::bytes(std::size_t num_pieces) {
  return static_cast<std::int64_t>(num_pieces * sizeof(double));
}

GradientSquares::GradientSquares(std::span<const Parameter> parameters, tensor::Device& device)
    : parameters_(parameters),
      pieces_(cut_into_pieces(parameters)),
      sums_(pieces_.empty() ? tensor::Buffer{}
                            : device.allocate(static_cast<std::size_t>(bytes(pieces_.size())),
                                              tensor::MemoryKind::pinned)) {}

Tensor GradientSquares::sums(const PieceRange& pieces) const {
  return sums_.view(tensor::DType::f64, {pieces.count()},
                    static_cast<std::size_t>(pieces.first) * sizeof(double));
}

/// One call for the pieces of each parameter.
void GradientSquares::sum(tensor::Stream& stream, const PieceRange& pieces) const {
  for (int first = pieces.first; first < pieces.end;) {
    const GradientPiece& piece = pieces_[static_cast<std::size_t>(first)];
    int end = first + 1;
    while (end < pieces.end && pieces_[static_cast<std::size_t>(end)].parameter == piece.parameter)
      ++end;
    const Parameter& parameter = parameters_[static_cast<std::size_t>(piece.parameter)];
    const tensor::Shape& shape = parameter.gradient.shape;
    const std::int64_t columns = shape.num_elements() / shape[0];
    const std::int64_t kept_row = piece.row - parameter.first_kept_row();
    const std::int64_t size = pieces_[static_cast<std::size_t>(end - 1)].end - piece.begin;
    stream.device().ops().sums_of_squares(
        stream,
        {parameter.kept_gradient.as<float>() + kept_row * columns, tensor::DType::f32, {size}},
        rows_of_piece(shape[0], columns) * columns, sums({.first = first, .end = end}));
    first = end;
  }
}

void GradientSquares::add_up(std::span<double> out) const {
  TROUPE_ASSERT(out.size() == parameters_.size());
  std::ranges::fill(out, 0.0);
  const auto* const sums = static_cast<const double*>(sums_.data());
  for (std::size_t i = 0; i < pieces_.size(); ++i) {
    const auto number = static_cast<std::size_t>(pieces_[i].parameter);
    const Parameter& parameter = parameters_[number];
    if (parameter.owned && !parameter.update.frozen) out[number] += sums[i];
  }
}

}  // namespace troupe::stages
