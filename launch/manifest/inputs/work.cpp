#include "launch/manifest/inputs/work.h"

#include <utility>
#include <vector>

#include "actors/topology/validation.h"
#include "stages/model/computation.h"
#include "tensor/values/dtype.h"

namespace troupe::launch {
namespace {

using schedules::Work;

int bytes_of(tensor::DType dtype) {
  return static_cast<int>(tensor::size_of(dtype));
}

Work::Recompute recompute_of(const stages::Recompute& recompute) {
  using Mode = stages::Recompute::Mode;
  switch (recompute.mode) {
    case Mode::none:
      return Work::Recompute::none;
    case Mode::selective:
      return Work::Recompute::selective;
    case Mode::output:
      return Work::Recompute::output;
    case Mode::full:
      break;
  }
  return Work::Recompute::full;
}

Work::Division division_of(stages::StateDivision division) {
  switch (division) {
    case stages::StateDivision::none:
      return Work::Division::none;
    case stages::StateDivision::optim:
      return Work::Division::optim;
    case stages::StateDivision::optim_grads:
      return Work::Division::optim_grads;
    case stages::StateDivision::optim_grads_params:
      break;
  }
  return Work::Division::optim_grads_params;
}

}  // namespace

Work work_of(const actors::RunSpec& spec) {
  const stages::ModelConfig& model = spec.model;
  const stages::DataParallelSpec& replicas = spec.data_parallel;
  const bool is_block = spec.recompute.method == stages::Recompute::Method::block;
  const bool divides = spec.mesh.dp > 1;
  std::vector<Work::Width> widths;
  for (const auto& [dp, tp] : spec.mesh.widths) widths.push_back({.tp = tp, .dp = dp});
  return {.hidden = model.hidden_size,
          .feed_forward = model.intermediate_size,
          .experts = model.experts.count,
          .chosen_experts = model.experts.per_token,
          .expert_width = model.experts.width,
          .routed_layers = stages::num_routed_layers(model),
          .heads = model.num_attention_heads,
          .kv_heads = model.num_key_value_heads,
          .head_width = model.head_dim,
          .layers = model.num_hidden_layers,
          .vocabulary = model.vocab_size,
          .gates = stages::traits_of(model.kind).is_gated ? 2 : 1,
          .hidden_dropout = model.hidden_dropout > 0,
          .attention_dropout = model.attention_dropout > 0,
          .tied = model.tie_word_embeddings,
          .element_bytes = bytes_of(model.dtype),
          .micro = spec.batch.micro,
          .seq_len = spec.batch.seq_len,
          .microbatches = spec.num_microbatches(),
          .tp = spec.mesh.tp,
          .pp = spec.mesh.pp,
          .dp = spec.mesh.dp,
          .ep = spec.mesh.ep,
          .whole_experts = spec.mesh.etp == 1 && spec.mesh.tp > 1,
          .widths = std::move(widths),
          .sequence_parallel = spec.mesh.sequence_parallel,
          .updates_ahead = actors::updates_ahead(spec),
          .recompute = recompute_of(spec.recompute),
          .recomputed_layers = is_block ? spec.recompute.num_layers : 0,
          .division = divides ? division_of(replicas.division) : Work::Division::none,
          .instances = replicas.instances,
          .reduces_every_microbatch = divides && replicas.divides_gradients(),
          .overlaps_reductions = replicas.overlaps,
          .overlaps_gathers = replicas.overlaps_gather,
          .reshards = replicas.reshards,
          .gradient_bytes = bytes_of(replicas.wire)};
}

}  // namespace troupe::launch
