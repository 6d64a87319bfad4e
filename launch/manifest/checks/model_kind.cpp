#include <fmt/format.h>

#include <algorithm>

#include "launch/manifest/checks/check.h"
#include "launch/manifest/resolve/model_source.h"

namespace troupe::launch {
namespace {

/// Those that a kind has without a choice.
const char* biases_of(const stages::KindTraits& kind) {
  if (kind.has_layer_norm) return "biases";
  return kind.biases_qkv_only ? "those of queries, keys and values" : "none";
}

void check_kind_keys(const Manifest& m) {
  const stages::KindTraits& own = stages::traits_of(m->model.kind);
  for (const Key& key : manifest_keys()) {
    const KindKey* some = key.table == "model" ? find_kind_key(key.name) : nullptr;
    if (!some || some->is_of(own) || !m.given(key)) continue;
    const auto kinds = stages::model_kinds();
    const auto reads =
        std::ranges::find_if(kinds, [&](const auto& kind) { return some->is_of(kind); });
    m.fail(key, "{} is a key of model.kind = '{}', but the kind is '{}'; nearest: {}",
           key.full_name(), reads->name, own.name,
           fmt::format(fmt::runtime(some->otherwise), own.name, biases_of(own)));
  }
}

/// Refuses a key that the type of the rotary embedding does not read.
void check_read(const Manifest& m, const Key& key) {
  if (!m.given(key) || reads_key(m->model.rotary.type, key.name)) return;
  m.fail(key, "{} is not read with model.rope_type = '{}'; nearest: leave it out", key.full_name(),
         name_of(m->model.rotary.type));
}

void check_rotary(const Manifest& m) {
  const tensor::Rotary& rotary = m->model.rotary;
  for (const auto& [name, member] : tensor::kRotaryNumbers) check_read(m, m.key_of(rotary.*member));
  check_read(m, m.key_of(rotary.original_max_position_embeddings));
  check_read(m, m.key_of(rotary.truncate));
  if (tensor::reads(rotary.type, "factor") && !m.given(rotary.factor))
    m.fail(rotary.type, "model.rope_type = '{}' needs model.rope_factor; usual: 2 to 8",
           name_of(rotary.type));
}

}  // namespace

void check_model_kind(const Manifest& m) {
  check_kind_keys(m);
  check_rotary(m);
  const std::int64_t positions = m->model.max_position_embeddings;
  const std::int64_t& seq_len = m->batch.seq_len;
  if (stages::traits_of(m->model.kind).learns_positions && seq_len > positions)
    m.fail(seq_len,
           "batch.seq_len = {} must be at most model.max_position_embeddings = {}; nearest: "
           "seq_len = {}",
           seq_len, positions, positions);
}

}  // namespace troupe::launch
