#include "stages/files/hugging_face/layer_fields.h"

#include <fmt/format.h>

#include <algorithm>

#include "stages/files/hugging_face/expert_fields.h"
#include "stages/files/hugging_face/hf_kinds.h"
#include "stages/files/hugging_face/rope_config.h"
#include "stages/files/safetensors/json_file.h"
#include "stages/model/computation.h"
#include "stages/storage/data_error.h"

namespace troupe::stages {
namespace {

using nlohmann::json;

constexpr const char* kLayerTypes = "layer_types";
constexpr const char* kSlidingWindow = "sliding_window";
constexpr const char* kUsesWindow = "use_sliding_window";
constexpr const char* kFirstWindowed = "max_window_layers";
constexpr const char* kWindowPattern = "sliding_window_pattern";
constexpr const char* kNoRope = "no_rope_layers";
constexpr const char* kNoRopeInterval = "no_rope_layer_interval";
constexpr const char* kLocalBase = "rope_local_base_freq";
constexpr const char* kSlidingWord = "sliding_attention";
constexpr const char* kFullWord = "full_attention";

bool chooses_window(const HfKind& kind) {
  using enum WindowedLayers;
  return kind.windows == if_used || kind.windows == from_layer || kind.windows == without_rope;
}
/// Whether layer_types may say which layers have a window.
bool may_list_windows(const HfKind& kind) {
  return kind.windows != WindowedLayers::by_kind && kind.windows != WindowedLayers::if_used;
}

/// A type for each layer by what it `slides` says.
std::vector<LayerType> types_by(const ModelConfig& model, const auto& slides) {
  std::vector<LayerType> types;
  for (std::int64_t layer = 0; layer < model.num_hidden_layers; ++layer)
    types.push_back(slides(layer) ? LayerType::sliding : LayerType::full);
  return types;
}

std::vector<LayerType> types_by_kind(const ModelConfig& model) {
  const auto slides = traits_of(model.kind).slides;
  return types_by(model, [&](std::int64_t layer) { return slides && slides(layer); });
}

/// layer_types as the file has them, a list.
std::vector<LayerType> listed_types(ConfigFields& fields, const ModelConfig& model) {
  const json& list = fields.value(kLayerTypes);
  if (!list.is_array() || std::ssize(list) != model.num_hidden_layers)
    fields.refuse(kLayerTypes, fmt::format("expected a list of num_hidden_layers = {} words",
                                           model.num_hidden_layers));
  std::vector<LayerType> types;
  for (const json& word : list) {
    if (word != kSlidingWord && word != kFullWord)
      fields.refuse(kLayerTypes, fmt::format("Troupe has no layers of {}; expected {} or {}",
                                             word.dump(), kFullWord, kSlidingWord));
    types.push_back(word == kSlidingWord ? LayerType::sliding : LayerType::full);
  }
  return types;
}

/// Which layers have a window where the file does not list them.
std::vector<LayerType> derived_types(ConfigFields& fields, const HfKind& kind,
                                     const ModelConfig& model) {
  const bool has_window = model.sliding_window > 0;
  if (kind.windows == WindowedLayers::from_layer) {
    const auto first = fields.get<std::int64_t>(kFirstWindowed, 28);
    return types_by(model, [&](std::int64_t layer) { return has_window && layer >= first; });
  }
  if (kind.windows == WindowedLayers::without_rope)
    return types_by(model, [&](std::int64_t layer) {
      return has_window && !attention_of(model, layer).rotary;
    });
  if (kind.windows == WindowedLayers::patterned)
    if (const auto pattern = fields.find<std::int64_t>(kWindowPattern)) {
      if (*pattern < 1) fields.refuse(kWindowPattern, "expected at least 1");
      return types_by(model, [&](std::int64_t layer) { return (layer + 1) % *pattern != 0; });
    }
  return types_by_kind(model);
}

void read_windows(ConfigFields& fields, const HfKind& kind, ModelConfig& model) {
  if (chooses_window(kind) && !fields.get(kUsesWindow, false)) model.sliding_window = 0;
  if (kind.windows == WindowedLayers::if_used) fields.value(kFirstWindowed);  // of no meaning
  if (!may_list_windows(kind)) return;
  const bool is_listed = !fields.value(kLayerTypes).is_null();
  // Known even where layer_types wins over them.
  fields.value(kWindowPattern);
  if (kind.windows == WindowedLayers::from_layer) fields.value(kFirstWindowed);
  const auto types = is_listed ? listed_types(fields, model) : derived_types(fields, kind, model);
  const bool some_slide = std::ranges::count(types, LayerType::sliding) > 0;
  if (some_slide && model.sliding_window == 0)
    fields.refuse(chooses_window(kind) ? kUsesWindow : kSlidingWindow,
                  fmt::format("{} has layers with a window, but there is none", kLayerTypes));
  if (!some_slide) model.sliding_window = 0;
  if (types != types_by_kind(model)) model.layer_types = types;
}

/// 0 in no_rope_layers stands for a layer without rotary embedding.
void read_rotated_layers(ConfigFields& fields, ModelConfig& model) {
  const auto interval = fields.get<std::int64_t>(kNoRopeInterval, 4);
  const json& list = fields.value(kNoRope);
  if (list.is_null()) {
    if (interval < 1) fields.refuse(kNoRopeInterval, "expected at least 1");
    for (std::int64_t layer = 1; layer <= model.num_hidden_layers; ++layer)
      model.no_rope_layers.push_back(layer % interval != 0);
    return;
  }
  const auto is_flag = [](const json& item) { return item == 0 || item == 1; };
  if (!list.is_array() || std::ssize(list) < model.num_hidden_layers ||
      !std::ranges::all_of(list, is_flag))
    fields.refuse(kNoRope, fmt::format("expected a list of 0 (not rotated) or 1 for each of "
                                       "num_hidden_layers = {}",
                                       model.num_hidden_layers));
  for (std::int64_t layer = 0; layer < model.num_hidden_layers; ++layer)
    model.no_rope_layers.push_back(list[static_cast<std::size_t>(layer)].get<int>());
}

json words_of(const std::vector<LayerType>& types) {
  json words = json::array();
  for (const LayerType type : types)
    words.push_back(type == LayerType::sliding ? kSlidingWord : kFullWord);
  return words;
}

/// Without what follows from the kind.
json least_fields_of(const ModelConfig& model) {
  const HfKind& kind = hf_kind(model.kind);
  json fields = json::object();
  for (const ModelField& field : kind.own_fields) write_field(field, model, fields);
  if (chooses_window(kind)) fields[kUsesWindow] = model.sliding_window > 0;
  if (!model.layer_types.empty()) fields[kLayerTypes] = words_of(model.layer_types);
  if (!model.no_rope_layers.empty()) fields[kNoRope] = model.no_rope_layers;
  if (kind.lists_routed_layers) fields.update(routed_layers_of(model));
  return fields;
}

}  // namespace

void read_layer_fields(ConfigFields& fields, ModelConfig& model) {
  const HfKind& kind = hf_kind(model.kind);
  for (const ModelField& field : kind.own_fields) read_field(field, fields, kind.defaults, model);
  model.layer_types.clear();
  model.no_rope_layers.clear();
  if (kind.windows == WindowedLayers::without_rope) read_rotated_layers(fields, model);
  read_windows(fields, kind, model);
  if (kind.lists_routed_layers) read_routed_layers(fields, model);
}

json layer_fields_of(const ModelConfig& model) {
  const HfKind& kind = hf_kind(model.kind);
  json fields = least_fields_of(model);
  if (!may_list_windows(kind)) return fields;
  const auto types = model.layer_types.empty() ? types_by_kind(model) : model.layer_types;
  fields[kLayerTypes] = words_of(types);
  // Older versions know no list.
  if (kind.windows == WindowedLayers::from_layer)
    fields[kFirstWindowed] = std::ranges::find(types, LayerType::sliding) - types.begin();
  return fields;
}

std::string layer_text_of(const ModelConfig& model) {
  const HfKind& kind = hf_kind(model.kind);
  if (kind.own_fields.empty()) return "";
  json fields = least_fields_of(model);
  if (kind.rope.turns_parts) fields.update(rope_parts_of(model));
  if (kind.rope.is_by_layer) fields[kLocalBase] = model.local_rotary->theta;
  return fields.dump();
}

void read_layer_text(const std::string& text, ModelConfig& model) {
  const HfKind& kind = hf_kind(model.kind);
  const json object = text.empty() ? json::object() : parse_json(text, 3);
  ConfigFields fields(object, "model.config");
  if (!object.is_object())
    throw data_error(
        "model.config = '{}' must be an object of JSON, as {{\"sliding_window\": 512}}", text);
  read_layer_fields(fields, model);
  if (kind.rope.turns_parts) read_rope_parts(fields, model, model.rotary);
  model.local_rotary = kind.defaults.local_rotary;
  if (kind.rope.is_by_layer)
    model.local_rotary->theta = fields.get(kLocalBase, model.local_rotary->theta);
  if (const auto unused = fields.unused(); !unused.empty())
    fields.refuse(unused.front(),
                  fmt::format("a model of kind {} has no such field but for keys of [model]",
                              name_of(model.kind)));
}

}  // namespace troupe::stages
