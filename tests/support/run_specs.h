#pragma once

#include "actors/topology/run_spec.h"

namespace troupe::test {

/// A small valid run: 6 layers, 8 microbatches of 2 x 8 tokens a step.
inline actors::RunSpec small_run(int pp = 1, int dp = 1) {
  actors::RunSpec spec;
  spec.name = "test";
  spec.dir = "unused";
  spec.seed = 7;
  spec.max_steps = 4;
  spec.model = {.hidden_size = 16,
                .intermediate_size = 24,
                .num_hidden_layers = 6,
                .num_attention_heads = 2,
                .num_key_value_heads = 1,
                .head_dim = 8,
                .vocab_size = 32};
  spec.optimizer.max_steps = spec.max_steps;
  spec.batch = {.seq_len = 8, .micro = 2, .global = 16};
  spec.mesh = {.pp = pp, .dp = dp};
  return spec;
}

}  // namespace troupe::test
