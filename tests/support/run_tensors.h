#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/support/temp_dir.h"

namespace troupe::test {

/// Name to bytes of every tensor in a checkpoint.
inline std::map<std::string, std::string> tensors_in(const std::filesystem::path& dir) {
  std::map<std::string, std::string> tensors;
  for (const auto& entry : std::filesystem::directory_iterator(dir)) {
    if (entry.path().extension() != ".safetensors") continue;
    const std::string content = content_of(entry.path());
    std::uint64_t length = 0;
    content.copy(reinterpret_cast<char*>(&length), sizeof length);
    const auto header = nlohmann::json::parse(content.substr(sizeof length, length));
    for (const auto& [name, tensor] : header.items()) {
      if (name == "__metadata__") continue;
      const auto& offsets = tensor.at("data_offsets");
      const std::uint64_t begin = offsets.at(0), end = offsets.at(1);
      tensors[name] = content.substr(sizeof length + length + begin, end - begin);
    }
  }
  return tensors;
}

}  // namespace troupe::test
