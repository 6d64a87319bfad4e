#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/support/fake_stage.h"
#include "tests/support/hf_files.h"

// Directories of PEFT with the models that they are for, written by hand.

namespace troupe::test {

using Targets = std::vector<std::string>;

/// The content of adapter_config.json, as PEFT writes it.
inline nlohmann::json peft_json(const std::filesystem::path& base, const nlohmann::json& targets) {
  return {{"base_model_name_or_path", base.string()},
          {"bias", "none"},
          {"fan_in_fan_out", false},
          {"inference_mode", true},
          {"init_lora_weights", true},
          {"layers_to_transform", nullptr},
          {"lora_alpha", 6},
          {"lora_dropout", 0.25},
          {"modules_to_save", nullptr},
          {"peft_type", "LORA"},
          {"r", 2},
          {"rank_pattern", nlohmann::json::object()},
          {"target_modules", targets},
          {"task_type", "CAUSAL_LM"},
          {"use_dora", false},
          {"use_rslora", false}};
}

inline std::vector<float> floats_of(const RawTensor& raw) {
  std::vector<float> floats(raw.bytes.size() / sizeof(float));
  std::memcpy(floats.data(), raw.bytes.data(), raw.bytes.size());
  return floats;
}

/// The tensors of an adapter for the model, with numbers of some size.
inline RawTensors adapter_tensors(stages::ModelConfig model, Targets targets) {
  std::ranges::sort(targets);
  model.adapter = {.rank = 2, .alpha = 6, .targets = targets};
  RawTensors tensors;
  int next = 0;
  for (const stages::StoredTensor& tensor : stages::saved_tensors(model)) {
    RawTensor& raw = tensors[tensor.name];
    raw = {"F32", {tensor.shape.dims().begin(), tensor.shape.dims().end()}, ""};
    for (std::int64_t i = 0; i < tensor.shape.num_elements(); ++i) {
      const auto value = static_cast<float>(std::sin(++next));
      raw.bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
    }
  }
  return tensors;
}

/// The model of gpt2_json().
inline stages::ModelConfig small_gpt2() {
  return {.kind = stages::ModelKind::gpt2,
          .hidden_size = 8,
          .intermediate_size = 32,
          .num_hidden_layers = 2,
          .num_attention_heads = 2,
          .num_key_value_heads = 2,
          .head_dim = 4,
          .vocab_size = 16,
          .max_position_embeddings = 32,
          .tie_word_embeddings = true};
}

/// A base and an adapter for it in directories.
struct AdapterFiles {
  TempDir dir;
  stages::ModelConfig model;

  /// Writes a base and PEFT's directory of an adapter for it, and keeps its model.
  std::filesystem::path peft(const nlohmann::json& config, const Targets& targets,
                             const nlohmann::json& changes = {}) {
    const std::filesystem::path base = dir / "base";
    if (!std::filesystem::exists(base)) {
      model = config["model_type"] == "gpt2" ? small_gpt2() : small_model();
      write_model(base, config, tensors_of(model));
    }
    nlohmann::json file = peft_json(base, targets);
    for (const auto& [name, value] : changes.items()) file[name] = value;
    std::filesystem::create_directories(dir / "peft");
    write_file(dir / "peft/adapter_config.json", file.dump());
    write_file(dir / "peft/adapter_model.safetensors",
               safetensors_file(adapter_tensors(model, targets)));
    return dir / "peft";
  }
  /// The weights of the base with the adapter added to them, in float64.
  std::map<std::string, std::vector<double>> merged(const Targets& targets, double scale) const {
    const RawTensors tensors = adapter_tensors(model, targets);
    std::map<std::string, std::vector<double>> out;
    for (const auto& [name, raw] : tensors_of(model)) {
      const auto floats = floats_of(raw);
      out[name].assign(floats.begin(), floats.end());
      const std::string module = "base_model.model." + name.substr(0, name.rfind(".weight"));
      const auto a = tensors.find(module + ".lora_A.weight");
      if (a == tensors.end()) continue;
      add(floats_of(a->second), floats_of(tensors.at(module + ".lora_B.weight")), scale, raw.shape,
          out[name]);
    }
    return out;
  }
  /// Conv1D's tensors, of gpt2, are [in, out].
  void add(const std::vector<float>& a, const std::vector<float>& b, double scale,
           const std::vector<std::int64_t>& shape, std::vector<double>& w) const {
    const bool turned = model.kind == stages::ModelKind::gpt2;
    const auto rows = static_cast<std::size_t>(shape[0]),
               columns = static_cast<std::size_t>(shape[1]);
    const std::size_t in = turned ? rows : columns;
    for (std::size_t i = 0; i < rows; ++i)
      for (std::size_t j = 0; j < columns; ++j)
        for (std::size_t k = 0; k < 2; ++k)
          w[i * columns + j] += scale * static_cast<double>(b[(turned ? j : i) * 2 + k]) *
                                static_cast<double>(a[k * in + (turned ? i : j)]);
  }
};

}  // namespace troupe::test
