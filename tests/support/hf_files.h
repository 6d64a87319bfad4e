#pragma once

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "stages/files/safetensors/stored_tensor.h"
#include "stages/model/model_config.h"
#include "tests/support/temp_dir.h"

// Models as Hugging Face directories, written by hand.

namespace troupe::test {

/// A tensor as a file holds it.
struct RawTensor {
  std::string dtype;  ///< as safetensors spell it
  std::vector<std::int64_t> shape;
  std::string bytes;
  bool operator==(const RawTensor&) const = default;
};
using RawTensors = std::map<std::string, RawTensor>;

/// A safetensors file with these tensors in the order of their names, and without checksums.
inline std::string safetensors_file(const RawTensors& tensors) {
  nlohmann::json header = {{"__metadata__", {{"format", "pt"}}}};
  std::string data;
  for (const auto& [name, tensor] : tensors) {
    header[name] = {{"dtype", tensor.dtype},
                    {"shape", tensor.shape},
                    {"data_offsets", {data.size(), data.size() + tensor.bytes.size()}}};
    data += tensor.bytes;
  }
  const std::string text = header.dump();
  const std::uint64_t length = text.size();
  return std::string(reinterpret_cast<const char*>(&length), sizeof length) + text + data;
}

/// The tensors of a file that safetensors_file() or the program has written.
inline RawTensors raw_tensors(const std::filesystem::path& path) {
  const std::string file = content_of(path);
  std::uint64_t length = 0;
  std::memcpy(&length, file.data(), sizeof length);
  const auto header = nlohmann::json::parse(file.substr(sizeof length, length));
  RawTensors tensors;
  for (const auto& [name, entry] : header.items()) {
    if (name == "__metadata__") continue;
    const std::uint64_t begin = entry["data_offsets"][0], end = entry["data_offsets"][1];
    tensors[name] = {entry["dtype"], entry["shape"],
                     file.substr(sizeof length + length + begin, end - begin)};
  }
  return tensors;
}

/// The upper halves of float32 numbers.
inline RawTensor as_bfloat16(const RawTensor& floats) {
  RawTensor half{"BF16", floats.shape, ""};
  for (std::size_t i = 0; i < floats.bytes.size(); i += 4)
    half.bytes += floats.bytes.substr(i + 2, 2);
  return half;
}

/// Every tensor of a model in float32. Values differ by tensor and element; their lower halves are
/// zero, so that they are bfloat16 numbers, too.
inline RawTensors tensors_of(const stages::ModelConfig& model) {
  RawTensors tensors;
  std::uint32_t next = 0x3c00;
  for (const auto& [name, shape, frozen] : stages::stored_tensors(model)) {
    RawTensor& tensor = tensors[name];
    tensor.dtype = "F32";
    tensor.shape.assign(shape.dims().begin(), shape.dims().end());
    for (std::int64_t i = 0; i < shape.num_elements(); ++i) {
      const std::uint32_t bits = (0x3c00 + next++ % 0x400) << 16;
      tensor.bytes.append(reinterpret_cast<const char*>(&bits), sizeof bits);
    }
  }
  return tensors;
}

/// config.json of a small Llama, in the spelling of transformers 5.
inline nlohmann::json llama_json() {
  return {{"architectures", {"LlamaForCausalLM"}},
          {"attention_bias", false},
          {"attention_dropout", 0.0},
          {"dtype", "float32"},
          {"head_dim", 4},
          {"hidden_act", "silu"},
          {"hidden_size", 8},
          {"initializer_range", 0.08},
          {"intermediate_size", 12},
          {"max_position_embeddings", 64},
          {"mlp_bias", false},
          {"model_type", "llama"},
          {"num_attention_heads", 2},
          {"num_hidden_layers", 3},
          {"num_key_value_heads", 1},
          {"rms_norm_eps", 1e-5},
          {"rope_parameters", {{"rope_theta", 10000.0}, {"rope_type", "default"}}},
          {"tie_word_embeddings", false},
          {"vocab_size", 16}};
}

/// config.json of a small GPT-2.
inline nlohmann::json gpt2_json() {
  return {{"architectures", {"GPT2LMHeadModel"}},
          {"activation_function", "gelu_new"},
          {"attn_pdrop", 0.1},
          {"dtype", "float32"},
          {"embd_pdrop", 0.2},
          {"layer_norm_epsilon", 1e-5},
          {"model_type", "gpt2"},
          {"n_embd", 8},
          {"n_head", 2},
          {"n_inner", nullptr},
          {"n_layer", 2},
          {"n_positions", 32},
          {"resid_pdrop", 0.2},
          {"vocab_size", 16}};
}

/// Writes a directory of one file of weights.
inline std::filesystem::path write_model(const std::filesystem::path& dir,
                                         const nlohmann::json& config, const RawTensors& tensors) {
  std::filesystem::create_directories(dir);
  write_file(dir / "config.json", config.dump(2) + '\n');
  write_file(dir / "model.safetensors", safetensors_file(tensors));
  return dir;
}

/// Writes a directory whose tensors lie in two files with an index.
inline std::filesystem::path write_sharded_model(const std::filesystem::path& dir,
                                                 const nlohmann::json& config,
                                                 const RawTensors& tensors) {
  write_model(dir, config, tensors);
  std::filesystem::remove(dir / "model.safetensors");
  RawTensors parts[2];
  nlohmann::json map;
  for (const auto& [name, tensor] : tensors) {
    const std::size_t part = name.ends_with("weight") && name.size() % 2 ? 1 : 0;
    parts[part][name] = tensor;
    map[name] = part == 0 ? "model-00001-of-00002.safetensors" : "model-00002-of-00002.safetensors";
  }
  write_file(dir / "model-00001-of-00002.safetensors", safetensors_file(parts[0]));
  write_file(dir / "model-00002-of-00002.safetensors", safetensors_file(parts[1]));
  const nlohmann::json index = {{"metadata", {{"total_size", 1}}}, {"weight_map", map}};
  write_file(dir / "model.safetensors.index.json", index.dump());
  return dir;
}

}  // namespace troupe::test
