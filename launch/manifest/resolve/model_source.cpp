#include "launch/manifest/resolve/model_source.h"

#include <fmt/format.h>

#include "stages/files/checkpoint/checkpoint.h"

namespace troupe::launch {
namespace {

/// Gives a key that decides what the weights mean its value. From now on the key counts as given.
void fix(Manifest& m, const std::string& key, const Value& value) {
  if (!m.given(key)) return m.settle(key, value);
  if (m.value(key) != value)
    m.fail(key, fmt::format("{} = {} contradicts the model in {}, where it is {}; leave it out",
                            key, to_toml(m.value(key)), kModelFrom, to_toml(value)));
}

void take_rotary(const tensor::Rotary& rotary, Manifest& m) {
  const auto key = [](std::string_view field) { return "model.rope_" + std::string(field); };
  fix(m, key("type"), std::string(tensor::name_of(rotary.type)));
  fix(m, key("theta"), rotary.theta);
  for (const auto& [field, member] : tensor::kRotaryNumbers)
    if (tensor::reads(rotary.type, field)) fix(m, key(field), rotary.*member);
  constexpr const char* kOriginal = "original_max_position_embeddings";
  if (tensor::reads(rotary.type, kOriginal))
    fix(m, key(kOriginal), rotary.original_max_position_embeddings);
  if (tensor::reads(rotary.type, "truncate")) fix(m, key("truncate"), rotary.truncate);
}

void take_model(const stages::ModelConfig& model, Manifest& m) {
  fix(m, "model.kind", std::string(stages::name_of(model.kind)));
  fix(m, "model.hidden_size", model.hidden_size);
  fix(m, "model.intermediate_size", model.intermediate_size);
  fix(m, "model.num_hidden_layers", model.num_hidden_layers);
  fix(m, "model.num_attention_heads", model.num_attention_heads);
  fix(m, "model.num_key_value_heads", model.num_key_value_heads);
  fix(m, "model.head_dim", model.head_dim);
  fix(m, "model.vocab_size", model.vocab_size);
  fix(m, "model.max_position_embeddings", model.max_position_embeddings);
  fix(m, "model.tie_word_embeddings", model.tie_word_embeddings);
  if (model.kind == stages::ModelKind::gpt2) {
    fix(m, "model.layer_norm_epsilon", model.layer_norm_epsilon);
  } else {
    fix(m, "model.rms_norm_eps", model.rms_norm_eps);
    fix(m, "model.attention_bias", model.attention_bias);
    fix(m, "model.mlp_bias", model.mlp_bias);
    take_rotary(model.rotary, m);
  }
}

/// What a run may choose.
void suggest(const stages::CheckpointReader& source, Manifest& m) {
  const stages::ModelConfig& model = source.info().model;
  m.derive("model.initializer_range", model.initializer_range);
  m.derive("model.hidden_dropout", model.hidden_dropout);
  m.derive("model.attention_dropout", model.attention_dropout);
  m.derive("data.tokenizer", source.tokenizer());
}

}  // namespace

void resolve_source(Manifest& m) {
  if (m.text(kModelFrom).empty()) return;
  m.resolve(kModelFrom, m.absolute(kModelFrom, m.text(kModelFrom)));
  const auto source = [&] {
    try {
      return stages::CheckpointReader::open(m.text(kModelFrom));
    } catch (const Error& error) {
      m.fail(kModelFrom, error.what(), error.kind());
    }
  }();
  if (source->info().model.value_head)
    m.fail(kModelFrom,
           fmt::format("{} has a value head (LlamaForTokenClassification), which is computed and "
                       "copied, but not trained; name a LlamaForCausalLM",
                       m.text(kModelFrom)),
           ErrorKind::data);
  take_model(source->info().model, m);
  suggest(*source, m);
}

}  // namespace troupe::launch
