#include "stages/decoder/layers/sublayer_form.h"

#include "stages/model/adapter.h"

namespace troupe::stages {
namespace {

AdaptedProducts adapted_products(const ModelConfig& model, Module module) {
  AdaptedProducts adapted;
  if (!model.adapter) return adapted;
  for (const ParameterInfo& info : parameters_of(model)) {
    if (info.module != module || !is_adapter(info)) continue;
    const bool is_of_first = info.field == Field::lora_a || info.field == Field::lora_b;
    (is_of_first ? adapted.in : adapted.out) = true;
  }
  return adapted;
}

}  // namespace

SublayerForm sublayer_form(const ModelConfig& model, int shards) {
  const KindTraits& traits = traits_of(model.kind);
  return {.has_norm = traits.norm_place != NormPlace::after,
          .has_end_norm = traits.norm_place != NormPlace::before,
          .branch_scale = static_cast<float>(branch_scale(model)),
          .head_norm = traits.head_norm,
          .sums_heads = traits.head_norm == HeadNorm::whole_width && shards > 1,
          .has_frozen_base = model.adapter.has_value(),
          .attention_adapters = adapted_products(model, Module::attention),
          .feed_forward_adapters = adapted_products(model, Module::feed_forward)};
}

}  // namespace troupe::stages
