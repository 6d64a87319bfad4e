#pragma once

#include <cstdint>

#include "stages/model/parameter_group.h"
#include "tensor/device/ops.h"

namespace troupe::stages {

enum class Decay { constant, linear, cosine, wsd };

struct OptimizerConfig {
  double lr = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.95;
  double eps = 1e-8;
  double weight_decay = 0.1;
  bool decay_all = false;  ///< weight decay on norms too
  double clip = 1.0;       ///< largest gradient norm; 0 for no clipping
  std::int64_t warmup_steps = 0;
  Decay decay = Decay::constant;
  /// Number of steps from the end of warm-up to min_lr; for wsd the last steps of max_steps.
  std::int64_t decay_steps = 0;
  double min_lr = 0;
  std::int64_t max_steps = 0;  ///< steps of the run; wsd counts back from it
  bool operator==(const OptimizerConfig&) const = default;
};

/// Learning rate of update `step` (from 1). With w = warmup_steps, n = decay_steps, M = max_steps:
///   step <= w   lr * step / w
///   constant    lr
///   linear      lr + (min_lr - lr) * t              t = (step - w) / n
///   cosine      min_lr + (lr - min_lr) * (1 + cos(pi * t)) / 2
///   wsd         lr + (min_lr - lr) * t              t = (step - (M - n)) / n
/// where t is kept within 0 ... 1, and is 1 after warm-up if n is 0 (wsd: 0).
double learning_rate(const OptimizerConfig& config, std::int64_t step);

/// The factor of torch.nn.utils.clip_grad_norm_: min(1, clip / (norm + 1e-6)); 1 without clipping.
double clip_factor(const OptimizerConfig& config, double norm);

/// The parameters of update number `step` (from 1) with its learning rate; `factor` is the result
/// of clip_factor().
tensor::AdamWStep adamw_step(const OptimizerConfig& config, std::int64_t step, double factor);
/// The update of a parameter with this rule, which is not frozen.
tensor::AdamWStep step_of(const UpdateRule& rule, const tensor::AdamWStep& step);

}  // namespace troupe::stages
