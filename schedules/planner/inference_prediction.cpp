#include "schedules/planner/inference_prediction.h"

#include <algorithm>

#include "schedules/planner/chunk_work.h"

namespace troupe::schedules {
namespace {

/// Kernels that a layer takes for a token, about.
constexpr int kKernelsOfLayer = 8;

std::int64_t ceiled(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}

}  // namespace

InferencePrediction predict_inference(Work work, std::int64_t batch, std::int64_t context,
                                      const MachineModel& machine) {
  const Operations on(machine, work.element_bytes, work.tp * work.pp);
  const std::int64_t layers = ceiled(work.layers, work.pp);
  const std::int64_t keys = std::max<std::int64_t>(work.kv_heads / work.tp, 1) * work.head_width;
  const auto held = static_cast<int>(layers);
  const double parameters =
      work.pp == 1 ? parameters_of(work, {.layers = held, .embedding = true, .head = !work.tied})
                   : parameters_of(work, {.layers = held, .embedding = true});
  InferencePrediction out;
  out.weights_bytes = static_cast<std::int64_t>(parameters) * work.element_bytes;
  out.kv_cache_bytes = 2 * batch * context * keys * work.element_bytes * layers;

  work.micro = batch;
  work.seq_len = context;
  work.hidden_dropout = work.attention_dropout = false;
  const PassCosts layer = layer_costs(work, on, Work::Recompute::none);
  const double hop = work.pp > 1 ? hop_between_stages(work, work, on) : 0;
  const double of_layers = static_cast<double>(work.layers) * (layer.forward + layer.forward_wait);
  out.prefill_s = of_layers + (work.pp - 1) * hop;

  const double sums = on.collective(Rounds::reduce, work.tp, 1,
                                    on.element_bytes() * static_cast<double>(batch * work.hidden));
  const double read = on.stream(static_cast<double>(out.weights_bytes + out.kv_cache_bytes),
                                kKernelsOfLayer * held);
  work.seq_len = 1;
  const double token_hop = work.pp > 1 ? hop_between_stages(work, work, on) : 0;
  out.token_s = work.pp * (read + 2.0 * held * sums) + (work.pp - 1) * token_hop;
  out.decode_tokens_per_s = static_cast<double>(batch) / out.token_s;
  return out;
}

}  // namespace troupe::schedules
