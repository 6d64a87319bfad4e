#include "tensor/cuda/attention/cudnn_plans.h"

#include <fmt/format.h>

#include <utility>

#include "tensor/cuda/attention/attention_choice.h"

namespace troupe::tensor::cuda {

CudnnPlans::Both CudnnPlans::find(const AttentionShape& shape) {
  if (!cudnn_serves(shape) || !CudnnPlan::is_there()) return {};
  const std::string key = fmt::format(
      "{} {} {} tokens with {} heads of {}, {} for keys{}", shape.batch,
      shape.documents ? "documents of up to" : "sequences of", shape.seq_len, shape.heads,
      shape.head_dim, shape.kv_heads, shape.causal ? "" : ", each query seeing all keys");
  const auto known = made_.find(key);
  if (known != made_.end()) return known->second;
  const auto plan = [&](AttentionPass pass) {
    CudnnPlan::Made made = CudnnPlan::make(shape, pass, deterministic_);
    if (!made.plan) {
      tell_(fmt::format(
          "attention of {} is computed by our own kernels, which are slower than cuDNN's: cuDNN "
          "refuses the {}{} on this GPU: {}",
          key, deterministic_ && pass == AttentionPass::backward ? "deterministic " : "",
          pass == AttentionPass::backward ? "backward" : "forward", made.refusal));
    }
    return std::shared_ptr<CudnnPlan>(std::move(made.plan));
  };
  Both both{.forward = plan(AttentionPass::forward), .backward = nullptr};
  if (both.forward) both.backward = plan(AttentionPass::backward);
  if (!both.backward) both = {};
  return made_.emplace(key, std::move(both)).first->second;
}

}  // namespace troupe::tensor::cuda
