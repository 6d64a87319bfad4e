#pragma once

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "stages/decoder/stage/transformer_stage.h"
#include "stages/model/adapter.h"
#include "tensor/cpu/ops/random_fills.h"
#include "tests/support/guarded_memory.h"

// Models with adapters whose base is drawn, where training reads it from files.

namespace troupe::test {

/// The model with an adapter of these targets, or of all that it can have.
inline stages::ModelConfig with_adapter(stages::ModelConfig model, double dropout = 0,
                                        std::vector<std::string> targets = {}) {
  if (targets.empty()) targets = stages::adapter_targets(model);
  model.adapter = {.rank = 3, .alpha = 5, .dropout = dropout, .targets = std::move(targets)};
  return model;
}

/// Makes the base of a stage that of a fresh model, and the Bs of its adapter differ from 0.
inline void draw_base(stages::Stage& stage, stages::StageSpec spec, tensor::Device& device,
                      std::uint64_t seed) {
  spec.model.adapter.reset();
  spec.training = false;
  const auto base = make_transformer_stage(spec, device);
  initialize(*base, spec.model, seed, 1);
  for (const stages::Parameter& parameter : stage.parameters()) {
    const tensor::Tensor weight = opened(parameter.weight);
    if (parameter.update.is_base) {
      const auto from =
          std::ranges::find(base->parameters(), parameter.name, &stages::Parameter::name);
      std::memcpy(weight.data, opened(from->weight).data, weight.num_bytes());
    } else if (parameter.name.find("lora_B") != std::string::npos) {
      const tensor::MatrixSlice slice{.columns = parameter.whole_shape[1],
                                      .first_row = parameter.region.row,
                                      .first_column = parameter.region.column};
      tensor::fill_normal(weight, slice, seed, parameter.name, 0.2, 1);
    }
  }
  stage.weights_changed();
}

}  // namespace troupe::test
