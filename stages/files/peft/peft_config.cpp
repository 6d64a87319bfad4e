#include "stages/files/peft/peft_config.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>
#include <vector>

#include "stages/files/hugging_face/config_fields.h"
#include "stages/files/peft/peft_targets.h"
#include "stages/files/safetensors/json_file.h"
#include "stages/storage/data_error.h"
#include "stages/storage/input_file.h"
#include "tensor/errors/error.h"

namespace troupe::stages {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char* kBaseField = "base_model_name_or_path";

/// A field with which PEFT computes something else, and what that is.
struct Refused {
  const char* field;
  const char* neutral;  ///< besides null, and what is empty, false or 0
  const char* what;
};
constexpr Refused kRefused[]{
    {"use_dora", "false", "DoRA divides each column's direction from its length"},
    {"bias", "\"none\"", "biases of the base would be trained"},
    {"lora_bias", "false", "B would have a bias"},
    {"modules_to_save", "null", "whole modules would be trained beside the adapter"},
    {"rank_pattern", "{}", "targets would have ranks of their own"},
    {"alpha_pattern", "{}", "targets would have scales of their own"},
    {"layers_to_transform", "null", "only some layers would have the adapter"},
    {"layers_pattern", "null", "only some layers would have the adapter"},
    {"layer_replication", "null", "the base's layers would be repeated"},
    {"exclude_modules", "null", "some layers' targets would have no adapter"},
    {"target_parameters", "null", "parameters that are no modules would have an adapter"},
    {"trainable_token_indices", "null", "rows of the embedding would be trained"},
    {"use_qalora", "false", "QALoRA groups the inputs"},
    {"use_bdlora", "null", "BD-LoRA has blocks of matrices"},
    {"alora_invocation_tokens", "null", "the adapter would act on some tokens alone"},
    {"kasa_config", "null", "KaSA changes the base's weights and has a diagonal between A and B"},
    {"monteclora_config", "null", "A would be drawn anew from a distribution"},
    {"arrow_config", "null", "an adapter would be chosen for each token"},
};

/// Whether a value says nothing: null, false, 0, or what is empty.
bool says_nothing(const json& value) {
  if (value.is_boolean()) return !value.get<bool>();
  if (value.is_number()) return value == 0;
  return value.is_null() || value.empty();
}

void refuse_others(ConfigFields& fields) {
  for (const auto& [field, neutral, what] : kRefused)
    if (const json& value = fields.value(field);
        !says_nothing(value) && value != json::parse(neutral))
      fields.refuse(field,
                    fmt::format("{}, which Troupe does not compute; expected {}", what, neutral));
  constexpr std::string_view kKeepBase[]{"gaussian", "eva", "orthogonal"};
  const json& init = fields.value("init_lora_weights");
  if (init.is_string() && std::ranges::count(kKeepBase, init.get<std::string>()) == 0)
    fields.refuse("init_lora_weights",
                  "this way to begin changes the base's weights, so that the adapter is not for "
                  "the base as its files hold it; expected true or false");
}

/// A number as an integer, if it is one.
json as_number(double value) {
  constexpr double kExact = 9007199254740992;
  if (value == std::floor(value) && std::abs(value) < kExact)
    return static_cast<std::int64_t>(value);
  return value;
}

}  // namespace

bool holds_adapter(const fs::path& dir) {
  return file_exists(dir / kAdapterConfigFile);
}

fs::path base_of_adapter(const fs::path& dir) {
  const fs::path path = dir / kAdapterConfigFile;
  const json content = read_json_file(path);
  ConfigFields fields(content, path.string());
  const std::string name = fields.find<std::string>(kBaseField).value_or("");
  if (name.empty())
    fields.refuse(kBaseField, "write there the directory of the model that the adapter is for");
  std::error_code ignored;
  for (const fs::path& found : {dir / name, fs::path(name)})
    if (fs::is_directory(found, ignored)) return fs::absolute(found).lexically_normal();
  fields.refuse(kBaseField,
                "no such directory here; write there the one that holds the model, or train with "
                "model.from and adapter.from");
}

Adapter read_peft_config(const fs::path& dir, const ModelConfig& model) {
  const fs::path path = dir / kAdapterConfigFile;
  const json content = read_json_file(path);
  ConfigFields fields(content, path.string());
  if (const auto type = fields.get<std::string>("peft_type", ""); type != "LORA")
    fields.refuse("peft_type", "the adapters that Troupe knows are of type LORA");
  if (const auto task = fields.find<std::string>("task_type"); task && *task != "CAUSAL_LM")
    fields.refuse("task_type", "Troupe predicts tokens; expected CAUSAL_LM");
  refuse_others(fields);
  // What PEFT takes for fields that are missing.
  Adapter adapter{.rank = fields.get<std::int64_t>("r", 8),
                  .alpha = fields.get<double>("lora_alpha", 8),
                  .dropout = fields.get<double>("lora_dropout", 0),
                  .rslora = fields.get<bool>("use_rslora", false)};
  try {
    adapter.targets = chosen_targets(fields.value("target_modules"), model);
  } catch (const Error& error) {
    fields.refuse("target_modules", error.what());
  }
  ModelConfig adapted = model;
  adapted.adapter = adapter;
  if (const tensor::FieldFault fault = check_adapter(adapted); !fault.empty())
    throw data_error("{}: {}", path.string(), fault.sentence);
  return adapter;
}

std::string to_peft_config(const ModelConfig& model) {
  const Adapter& adapter = model.adapter.value();
  const json config = {{"alpha_pattern", json::object()},
                       {"auto_mapping", nullptr},
                       {kBaseField, adapter.base},
                       {"bias", "none"},
                       {"fan_in_fan_out", model.kind == ModelKind::gpt2},
                       {"inference_mode", true},
                       {"init_lora_weights", true},
                       {"layers_pattern", nullptr},
                       {"layers_to_transform", nullptr},
                       {"lora_alpha", as_number(adapter.alpha)},
                       {"lora_dropout", adapter.dropout},
                       {"modules_to_save", nullptr},
                       {"peft_type", "LORA"},
                       {"r", adapter.rank},
                       {"rank_pattern", json::object()},
                       {"revision", nullptr},
                       {"target_modules", adapter.targets},
                       {"task_type", "CAUSAL_LM"},
                       {"use_dora", false},
                       {"use_rslora", adapter.rslora}};
  return config.dump(2) + '\n';
}

}  // namespace troupe::stages
