#pragma once

#include <memory>

#include "stages/stage/stage.h"
#include "tests/support/guarded_memory.h"
#include "tests/support/reference_gpt2_model.h"
#include "tests/support/reference_llama_model.h"

namespace troupe::reference {

/// The decoder of the model's kind, with the weights of a stage that holds all of it.
inline std::unique_ptr<Decoder> make_reference(const stages::ModelConfig& config,
                                               std::int64_t seq_len, const stages::Stage& stage) {
  std::unique_ptr<Decoder> model;
  if (config.kind == stages::ModelKind::gpt2)
    model = std::make_unique<Gpt2>(config, seq_len);
  else
    model = std::make_unique<Llama>(config, seq_len);
  for (const stages::Parameter& p : stage.parameters()) {
    const float* w = test::opened(p.weight).as<float>();
    model->weights.at(p.name).assign(w, w + p.weight.num_elements());
  }
  return model;
}

}  // namespace troupe::reference
