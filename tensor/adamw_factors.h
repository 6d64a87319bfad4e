#pragma once

#include <cmath>

#include "tensor/ops.h"

namespace troupe::tensor {

/// The scalars of one AdamW step, computed in float64. With g = gradient_scale * gradient, an
/// element becomes m = beta1 m + (1 - beta1) g, v = beta2 v + (1 - beta2) g^2 and
/// w = keep w - step_size m / (root_scale sqrt(v) + eps).
struct AdamWFactors {
  explicit AdamWFactors(const AdamWStep& step)
      : gradient_scale(step.gradient_scale),
        beta1(step.beta1),
        one_minus_beta1(static_cast<float>(1.0 - step.beta1)),
        beta2(step.beta2),
        one_minus_beta2(static_cast<float>(1.0 - step.beta2)),
        keep(static_cast<float>(1.0 - static_cast<double>(step.lr) * step.weight_decay)),
        step_size(static_cast<float>(step.lr / correction(step.beta1, step.step))),
        root_scale(static_cast<float>(1.0 / std::sqrt(correction(step.beta2, step.step)))),
        eps(step.eps) {}

  float gradient_scale, beta1, one_minus_beta1, beta2, one_minus_beta2;
  float keep;        ///< 1 - lr * weight_decay
  float step_size;   ///< lr / (1 - beta1^t)
  float root_scale;  ///< 1 / sqrt(1 - beta2^t)
  float eps;

 private:
  static double correction(double beta, std::int64_t step) {
    return 1.0 - std::pow(beta, static_cast<double>(step));
  }
};

}  // namespace troupe::tensor
