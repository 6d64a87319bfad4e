#include "launch/manifest/model_source.h"

#include <fmt/format.h>

#include "stages/checkpoint.h"

namespace troupe::launch {
namespace {

constexpr const char* kFrom = "model.from";
constexpr const char* kTokenizer = "data.tokenizer";

/// Gives keys of a manifest the values of a model.
class SourceKeys {
 public:
  explicit SourceKeys(Manifest& manifest) : manifest_(manifest) {}

  /// A key that decides what the weights mean. From now on it counts as given.
  void fixed(const std::string& key, const Value& value) {
    if (!manifest_.given(key)) return manifest_.settle(key, value);
    if (manifest_.value(key) != value)
      manifest_.fail(key, fmt::format("{} = {} contradicts the model in {}, where it is {}; leave "
                                      "it out",
                                      key, to_toml(manifest_.value(key)), kFrom, to_toml(value)));
  }
  /// A key that a run may choose.
  void free(const std::string& key, const Value& value) {
    if (!manifest_.given(key)) manifest_.resolve(key, value);
  }

 private:
  Manifest& manifest_;
};

void take_rotary(const tensor::Rotary& rotary, SourceKeys& keys) {
  const auto key = [](std::string_view field) { return "model.rope_" + std::string(field); };
  keys.fixed(key("type"), std::string(tensor::name_of(rotary.type)));
  keys.fixed(key("theta"), rotary.theta);
  for (const auto& [field, member] : tensor::kRotaryNumbers)
    if (tensor::reads(rotary.type, field)) keys.fixed(key(field), rotary.*member);
  constexpr const char* kOriginal = "original_max_position_embeddings";
  if (tensor::reads(rotary.type, kOriginal))
    keys.fixed(key(kOriginal), rotary.original_max_position_embeddings);
  if (tensor::reads(rotary.type, "truncate")) keys.fixed(key("truncate"), rotary.truncate);
}

void take_model(const stages::ModelConfig& model, SourceKeys& keys) {
  keys.fixed("model.kind", std::string(stages::name_of(model.kind)));
  keys.fixed("model.hidden_size", model.hidden_size);
  keys.fixed("model.intermediate_size", model.intermediate_size);
  keys.fixed("model.num_hidden_layers", model.num_hidden_layers);
  keys.fixed("model.num_attention_heads", model.num_attention_heads);
  keys.fixed("model.num_key_value_heads", model.num_key_value_heads);
  keys.fixed("model.head_dim", model.head_dim);
  keys.fixed("model.vocab_size", model.vocab_size);
  keys.fixed("model.max_position_embeddings", model.max_position_embeddings);
  keys.fixed("model.tie_word_embeddings", model.tie_word_embeddings);
  if (model.kind == stages::ModelKind::gpt2) {
    keys.fixed("model.layer_norm_epsilon", model.layer_norm_epsilon);
  } else {
    keys.fixed("model.rms_norm_eps", model.rms_norm_eps);
    keys.fixed("model.attention_bias", model.attention_bias);
    keys.fixed("model.mlp_bias", model.mlp_bias);
    take_rotary(model.rotary, keys);
  }
  keys.free("model.initializer_range", model.initializer_range);
  keys.free("model.hidden_dropout", model.hidden_dropout);
  keys.free("model.attention_dropout", model.attention_dropout);
}

}  // namespace

void resolve_source(Manifest& m) {
  if (m.text(kFrom).empty()) return;
  m.resolve(kFrom, m.absolute(kFrom, m.text(kFrom)));
  const auto source = [&] {
    try {
      return stages::CheckpointReader::open(m.text(kFrom));
    } catch (const Error& error) {
      m.fail(kFrom, error.what(), error.kind());
    }
  }();
  if (source->info().model.value_head)
    m.fail(kFrom,
           fmt::format("{} has a value head (LlamaForTokenClassification), which is computed and "
                       "copied, but not trained; name a LlamaForCausalLM",
                       m.text(kFrom)),
           ErrorKind::data);
  SourceKeys keys(m);
  take_model(source->info().model, keys);
  keys.free(kTokenizer, source->tokenizer());
}

}  // namespace troupe::launch
