#pragma once

#include <cmath>
#include <cstdint>

#include "tensor/values/tensor.h"

namespace troupe::tensor {

/// AdamW as torch.optim.AdamW defines it (decoupled weight decay, arXiv 1711.05101).
struct AdamWStep {
  float lr = 0;
  float beta1 = 0.9f;
  float beta2 = 0.999f;
  float eps = 1e-8f;
  float weight_decay = 0;
  std::int64_t step = 1;        ///< 1-based number of this update
  float gradient_scale = 1.0f;  ///< the clip factor
};

/// The scalars of one AdamW step, computed in float64. With g = gradient_scale * gradient, an
/// element becomes m = beta1 m + (1 - beta1) g, v = beta2 v + (1 - beta2) g^2 and
/// w = keep w - step_size m / (root_scale sqrt(v) + eps).
struct AdamWFactors {
  AdamWFactors() = default;
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

  float gradient_scale = 1, beta1 = 0, one_minus_beta1 = 1, beta2 = 0, one_minus_beta2 = 1;
  float keep = 1;        ///< 1 - lr * weight_decay
  float step_size = 0;   ///< lr / (1 - beta1^t)
  float root_scale = 1;  ///< 1 / sqrt(1 - beta2^t)
  float eps = 0;

 private:
  static double correction(double beta, std::int64_t step) {
    return 1.0 - std::pow(beta, static_cast<double>(step));
  }
};

/// One AdamW update of a parameter's N float32 elements. Reads w, m, v, gradient; writes w_out,
/// m_out, v_out, which may be w, m, v. copy[N] (act), if given, becomes w_out in its dtype.
struct AdamWUpdate {
  AdamWStep step;
  Tensor gradient, w, m, v, w_out, m_out, v_out;
  Tensor copy{};
};

}  // namespace troupe::tensor
