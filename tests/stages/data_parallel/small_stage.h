#pragma once

#include "stages/stage/stage_spec.h"

namespace troupe::test {

/// A stage that holds a whole small model, whose matrices have no two sizes in common.
inline stages::StageSpec small_stage(bool tied = false) {
  return {.model = {.hidden_size = 64,
                    .intermediate_size = 100,
                    .num_hidden_layers = 2,
                    .num_attention_heads = 4,
                    .num_key_value_heads = 2,
                    .head_dim = 16,
                    .vocab_size = 301,
                    .tie_word_embeddings = tied},
          .chunks = {{.first_layer = 0, .end_layer = 2, .embedding = true, .head = true}},
          .seq_len = 8,
          .global_tokens = 8};
}

}  // namespace troupe::test
