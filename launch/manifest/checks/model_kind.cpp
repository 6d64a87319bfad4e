#include "launch/manifest/checks/model_kind.h"

#include <fmt/format.h>

#include <array>

#include "launch/manifest/resolve/rotary.h"

namespace troupe::launch {
namespace {

/// A key that one kind alone has, and what to do in a model of the other kind.
struct KindKey {
  const char* key;
  const char* kind;
  const char* otherwise;
};

constexpr std::array kKindKeys{
    KindKey{"model.rms_norm_eps", "llama", "model.layer_norm_epsilon"},
    KindKey{"model.rope_theta", "llama",
            "leave it out, as positions are learned (model.max_position_embeddings)"},
    KindKey{"model.layer_norm_epsilon", "gpt2", "model.rms_norm_eps"},
    KindKey{"model.rope_type", "llama", "leave it out"},
    KindKey{"model.attention_bias", "llama", "leave it out, as gpt2 has biases"},
    KindKey{"model.mlp_bias", "llama", "leave it out, as gpt2 has biases"},
};

}  // namespace

void check_model_kind(const Manifest& m) {
  const std::string& kind = m.text("model.kind");
  for (const KindKey& key : kKindKeys)
    if (kind != key.kind && m.given(key.key))
      m.fail(key.key, fmt::format("{} is a key of model.kind = '{}', but the kind is '{}'; "
                                  "nearest: {}",
                                  key.key, key.kind, kind, key.otherwise));
  check_rotary(m);
  const std::int64_t positions = m.integer("model.max_position_embeddings");
  const std::int64_t seq_len = m.integer("batch.seq_len");
  if (kind == "gpt2" && seq_len > positions)
    m.fail("batch.seq_len",
           fmt::format("batch.seq_len = {} must be at most model.max_position_embeddings = {}; "
                       "nearest: seq_len = {}",
                       seq_len, positions, positions));
}

}  // namespace troupe::launch
