#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "stages/corpus/tokenizers/text/json_part.h"

namespace troupe::stages {

/// How a tokenizer.json makes a text of tokens: the decoders ByteLevel, Replace, ByteFallback,
/// Fuse, Strip, Metaspace and WordPiece, or a Sequence of them. Const calls may run in any thread.
class Decoder {
 public:
  /// Reads the member "decoder"; none: spaces between the tokens.
  explicit Decoder(const std::optional<JsonPart>& part);

  std::string apply(std::vector<std::string> tokens) const;

  /// What one of the decoders does to the tokens.
  using Step = std::function<void(std::vector<std::string>& tokens)>;

 private:
  void read(const JsonPart& part);

  bool present_ = false;
  std::vector<Step> steps_;
};

}  // namespace troupe::stages
