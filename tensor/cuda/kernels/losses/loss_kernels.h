#pragma once

#include <cstddef>
#include <cstdint>

#include "tensor/cuda/kernels/grid/grid_types.h"
#include "tensor/values/dtype.h"

// Cross-entropy over logits[rows, columns] (float32), as tensor/device/ops.h defines it. A target
// that is no class makes the loss a NaN. `loss` is one number. It and `scratch` may lie in pinned
// host memory.

namespace troupe::tensor::cuda {

struct CrossEntropy {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  const float* logits = nullptr;
  const std::int32_t* targets = nullptr;
  std::int32_t ignored = 0;  ///< a target without loss and gradient
  float scale = 1;
  void* dlogits = nullptr;  ///< null: no gradient. May be `logits` if it is float32.
  DType gradient_dtype = DType::f32;
};
/// Bytes of `scratch` that launch_cross_entropy and launch_vocab_loss need. They leave each row's
/// loss in it, a double.
std::size_t loss_scratch(std::int64_t rows);
void launch_cross_entropy(const CrossEntropy& entropy, double* loss, void* scratch,
                          cudaStream_t stream);

/// A shard's columns, of which the first `valid` stand for the classes from `first_class`.
struct VocabShard {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t valid = 0;
  std::int64_t first_class = 0;
};
/// max[rows] = the maximum of the valid columns.
void launch_vocab_max(const VocabShard& shard, const float* logits, float* max,
                      cudaStream_t stream);
/// Replaces logits by exp(logits - max). sums[2 or 3, rows] as Ops::vocab_sums says, three if
/// `with_shifted`.
void launch_vocab_sums(const VocabShard& shard, float* logits, const std::int32_t* targets,
                       const float* max, bool with_shifted, float* sums, cudaStream_t stream);

struct VocabEntropy {
  VocabShard shard;
  const float* exponentials = nullptr;
  const std::int32_t* targets = nullptr;
  const float* sums = nullptr;  ///< [3, rows] if smoothing > 0, else [2, rows]
  std::int64_t classes = 0;
  double smoothing = 0;
  std::int32_t ignored = 0;  ///< a target without loss and gradient
  float scale = 1;
  void* dlogits = nullptr;  ///< null: no gradient. May be `exponentials` if it is float32.
  DType gradient_dtype = DType::f32;
};
void launch_vocab_loss(const VocabEntropy& entropy, double* loss, void* scratch,
                       cudaStream_t stream);

}  // namespace troupe::tensor::cuda
