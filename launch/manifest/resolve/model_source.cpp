#include "launch/manifest/resolve/model_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "stages/files/checkpoint/checkpoint.h"
#include "stages/files/hugging_face/layer_fields.h"

namespace troupe::launch {
namespace {

using Traits = stages::KindTraits;

constexpr const char* kNoExperts = "leave it out, as {} has no experts";
constexpr std::array kKindKeys{
    KindKey{"rms_norm_eps", &Traits::has_layer_norm, false, "model.layer_norm_epsilon"},
    KindKey{"rope_theta", &Traits::learns_positions, false,
            "leave it out, as positions are learned (model.max_position_embeddings)"},
    KindKey{"rope_type", &Traits::learns_positions, false, "leave it out"},
    KindKey{"attention_bias", &Traits::chooses_attention_bias, true, "leave it out, as {} has {}"},
    KindKey{"mlp_bias", &Traits::chooses_mlp_bias, true, "leave it out, as {} has {}"},
    KindKey{"layer_norm_epsilon", &Traits::has_layer_norm, true, "model.rms_norm_eps"},
    KindKey{"num_experts", &Traits::has_experts, true, kNoExperts},
    KindKey{"num_experts_per_tok", &Traits::has_experts, true, kNoExperts},
    KindKey{"moe_intermediate_size", &Traits::has_experts, true, "model.intermediate_size"},
    KindKey{"norm_topk_prob", &Traits::has_experts, true, kNoExperts},
    KindKey{"router_aux_loss_coef", &Traits::has_experts, true, kNoExperts},
    KindKey{"router_z_loss_coef", &Traits::has_experts, true, kNoExperts},
    KindKey{"expert_capacity", &Traits::has_experts, true, kNoExperts},
};
constexpr std::string_view kRotary = "rope_";

/// Keys of [model] that do not say what weights mean, which a run may choose.
constexpr std::array<std::string_view, 10> kChoices{
    "from",           "initializer_range",    "initializer",
    "hidden_dropout", "attention_dropout",    "loss_chunk",
    "dtype",          "router_aux_loss_coef", "router_z_loss_coef",
    "expert_capacity"};

/// Whether a key decides what the weights of a model mean.
bool describes(const stages::ModelConfig& model, const Key& key) {
  if (key.table != "model" || std::ranges::count(kChoices, key.name) > 0) return false;
  if (const KindKey* some = find_kind_key(key.name)) return some->is_of(traits_of(model.kind));
  return !key.name.starts_with(kRotary) || reads_key(model.rotary.type, key.name);
}

/// Gives a key its value in the model. From now on the key counts as given.
void fix(Manifest& m, const Key& key, const Value& value) {
  if (!m.given(key)) return m.settle(key, value);
  if (m.value(key) != value)
    m.fail(key, "{} = {} contradicts the model in model.from, where it is {}; leave it out",
           key.full_name(), to_toml(m.value(key)), to_toml(value));
}

void take_model(const stages::ModelConfig& model, Manifest& m) {
  Settings source;
  source.model = model;
  source.model_config = stages::layer_text_of(model);
  for (const Key& key : manifest_keys())
    if (describes(model, key) && !(key.is_rare && key.get(&source) == m.value(key)))
      fix(m, key, key.get(&source));
  m.derive(m->model.initializer_range, model.initializer_range);
  m.derive(m->model.hidden_dropout, model.hidden_dropout);
  m.derive(m->model.attention_dropout, model.attention_dropout);
  if (traits_of(model.kind).has_experts)
    m.derive(m->model.experts.aux_loss_coef, model.experts.aux_loss_coef);
}

}  // namespace

const KindKey* find_kind_key(std::string_view name) {
  const auto found = std::ranges::find(kKindKeys, name, &KindKey::name);
  return found == kKindKeys.end() ? nullptr : &*found;
}

bool reads_key(tensor::RotaryType type, std::string_view name) {
  return tensor::reads(type, name.substr(kRotary.size()));
}

void resolve_source(Manifest& m) {
  std::string& from = m->model_from;
  if (from.empty()) return;
  from = m.absolute(m.key_of(from), from);
  const auto source = m.about(from, [&] { return stages::CheckpointReader::open(from); });
  if (source->info().model.value_head)
    m.fail_as(ErrorKind::data, from,
              "{} has a value head (LlamaForTokenClassification), which is computed and copied, "
              "but not trained; name a LlamaForCausalLM",
              from);
  take_model(source->info().model, m);
  const std::string tokenizer = source->tokenizer();
  if (tokenizer.empty() && !m.given(m->data.tokenizer))
    m.fail_as(
        ErrorKind::data, from,
        "{} has a vocabulary of {} tokens, but no tokenizer that can be read (tokenizer.json, "
        "tokenizer.model, tekken.json, .tiktoken, or vocab.json and merges.txt); put it "
        "there, or name one in data.tokenizer",
        from, source->info().model.vocab_size);
  m.derive(m->data.tokenizer, tokenizer);
}

}  // namespace troupe::launch
