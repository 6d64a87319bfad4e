#include "stages/decoder/stage/optimizer.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace troupe::stages {
namespace {

/// Progress, from 0 to 1, of the decay that begins after step `begin`.
double progress(const OptimizerConfig& config, std::int64_t step, std::int64_t begin) {
  if (step <= begin) return 0;
  if (step - begin >= config.decay_steps) return 1;
  return static_cast<double>(step - begin) / static_cast<double>(config.decay_steps);
}

}  // namespace

double learning_rate(const OptimizerConfig& config, std::int64_t step) {
  if (step <= config.warmup_steps) {
    return config.lr * static_cast<double>(step) / static_cast<double>(config.warmup_steps);
  }
  const double fall = config.min_lr - config.lr;
  switch (config.decay) {
    case Decay::constant:
      break;
    case Decay::linear:
      return config.lr + fall * progress(config, step, config.warmup_steps);
    case Decay::cosine: {
      const double angle = std::numbers::pi * progress(config, step, config.warmup_steps);
      return config.min_lr - fall * (1 + std::cos(angle)) / 2;
    }
    case Decay::wsd:
      return config.lr + fall * progress(config, step, config.max_steps - config.decay_steps);
  }
  return config.lr;
}

double clip_factor(const OptimizerConfig& config, double norm) {
  if (config.clip <= 0) return 1;
  return std::min(1.0, config.clip / (norm + 1e-6));
}

tensor::AdamWStep adamw_step(const OptimizerConfig& config, std::int64_t step, double factor) {
  return {.lr = static_cast<float>(learning_rate(config, step)),
          .beta1 = static_cast<float>(config.beta1),
          .beta2 = static_cast<float>(config.beta2),
          .eps = static_cast<float>(config.eps),
          .weight_decay = static_cast<float>(config.weight_decay),
          .step = step,
          .gradient_scale = static_cast<float>(factor)};
}

tensor::AdamWStep step_of(const UpdateRule& rule, const tensor::AdamWStep& step) {
  tensor::AdamWStep own = step;
  own.lr = static_cast<float>(step.lr * rule.lr_scale);
  if (rule.weight_decay) own.weight_decay = static_cast<float>(*rule.weight_decay);
  return own;
}

}  // namespace troupe::stages
