#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "tensor/ops.h"

namespace troupe::stages {

enum class Decay { constant, linear, cosine, wsd };

struct OptimizerConfig {
  double lr = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.95;
  double eps = 1e-8;
  double weight_decay = 0.1;
  bool decay_all = false;
  double clip = 1.0;  ///< largest gradient norm; 0: no clipping
  std::int64_t warmup_steps = 0;
  Decay decay = Decay::constant;
  std::int64_t decay_steps = 0;  ///< steps from the end of warm-up to min_lr (wsd: the last decay_steps of max_steps)
  double min_lr = 0;
  std::int64_t max_steps = 0;    ///< of the run; wsd counts back from it
  bool operator==(const OptimizerConfig&) const = default;
};

/// Learning rate of update `step` (from 1): lr * step / warmup_steps while warming up, then the decay.
double learning_rate(const OptimizerConfig& config, std::int64_t step);
/// The factor of torch.nn.utils.clip_grad_norm_: min(1, clip / (norm + 1e-6)); 1 without clipping.
double clip_factor(const OptimizerConfig& config, double norm);
tensor::AdamWStep adamw_step(const OptimizerConfig& config, std::int64_t step, double clip);

}  // namespace troupe::stages
