#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "stages/corpus/tokenizers/tokenizer.h"
#include "stages/corpus/tokens/token_file.h"

namespace troupe::test {

inline std::vector<std::int32_t> tokens_of(const std::string& path) {
  const auto file = stages::TokenFile::open(path);
  std::vector<std::int32_t> ids(static_cast<std::size_t>(file->num_tokens()));
  file->read(0, ids);
  return ids;
}

inline std::string text_of(const std::string& path) {
  return stages::Tokenizer::open("bytes")->decode(tokens_of(path));
}

}  // namespace troupe::test
