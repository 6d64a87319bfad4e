#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "stages/stage/parameter.h"
#include "tensor/device/device.h"

namespace troupe::stages {

/// Whole rows of a parameter, over which squares of its gradient are summed at once. Where pieces
/// begin follows from the parameter's shape alone, so that a norm that is added up from them has
/// the same bits whoever sums which pieces. Replicas cut what they divide between pieces.
struct GradientPiece {
  int parameter = 0;  ///< number in Stage::parameters()
  std::int64_t row = 0;
  std::int64_t begin = 0;  ///< elements of the stage's layout
  std::int64_t end = 0;
};

/// A run of the pieces of a stage, by number.
struct PieceRange {
  int first = 0;
  int end = 0;  ///< one past the last
  int count() const { return end - first; }
};

/// Rows of each piece of a matrix but the last. A vector has one column. There are at most 256
/// pieces, and none is smaller than 4096 elements but for the last.
std::int64_t rows_of_piece(std::int64_t rows, std::int64_t columns);

/// Cuts parameters of these shapes, which begin at `offsets` of the layout, into pieces; those of
/// no elements into none.
std::vector<GradientPiece> cut_into_pieces(std::span<const tensor::Shape> shapes,
                                           std::span<const std::int64_t> offsets);
/// Cuts the gradients of a stage, which has these parameters; none if it does not train.
std::vector<GradientPiece> cut_into_pieces(std::span<const Parameter> parameters);

/// Sums of squares of a stage's gradients.
class GradientSquares {
 public:
  /// `parameters` and the device outlive it. Nothing is allocated for parameters without gradients.
  GradientSquares(std::span<const Parameter> parameters, tensor::Device& device);
  /// Bytes that it allocates.
  static std::int64_t bytes(std::size_t num_pieces);
  std::int64_t allocated() const { return static_cast<std::int64_t>(sums_.bytes()); }

  std::span<const GradientPiece> pieces() const { return pieces_; }
  /// The sums of these pieces, float64, in pinned memory.
  tensor::Tensor sums(const PieceRange& pieces) const;
  /// Queues the sums of these pieces, all of slices that this replica keeps.
  void sum(tensor::Stream& stream, const PieceRange& pieces) const;
  /// For each parameter the total of its pieces' sums, in their order; 0 if it is not owned or is
  /// frozen. All
  /// sums have been computed, or put there.
  void add_up(std::span<double> out) const;

 private:
  const std::span<const Parameter> parameters_;
  const std::vector<GradientPiece> pieces_;
  const tensor::Buffer sums_;
};

}  // namespace troupe::stages
