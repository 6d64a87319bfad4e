#pragma once

#include "tests/support/small_manifest.h"

namespace troupe::test {

/// A model of as many layers as the most ranks that share a GPU here.
inline Keys ranks_model() {
  return {{"model.num_hidden_layers", "4"},
          {"model.hidden_size", "64"},
          {"model.num_attention_heads", "4"},
          {"model.num_key_value_heads", "2"},
          {"batch.seq_len", "64"}};
}

}  // namespace troupe::test
