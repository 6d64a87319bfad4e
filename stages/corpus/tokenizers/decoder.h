#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "stages/corpus/tokenizers/text/json_part.h"

namespace troupe::stages {

/// How a tokenizer.json makes a text of tokens: the decoders ByteLevel, Replace, ByteFallback,
/// Fuse, Strip and Metaspace, or a Sequence of them. Const calls may run in any thread.
class Decoder {
 public:
  /// Reads the member "decoder"; none: spaces between the tokens.
  explicit Decoder(const std::optional<JsonPart>& part);

  std::string apply(std::vector<std::string> tokens) const;

 private:
  /// Letters of GPT-2's alphabet become bytes, and these one text.
  struct ByteLevel {};
  /// Neighbours <0x00> ... <0xFF> become one text.
  struct ByteFallback {};
  struct Fuse {};
  struct Replace {
    std::string text;
    std::string with;
  };
  /// Takes characters from both ends of each token, at most so many.
  struct Strip {
    std::string character;
    std::int64_t at_start = 0;
    std::int64_t at_end = 0;
  };
  /// The mark becomes a space, or in the first token nothing if texts got one put before them.
  struct Metaspace {
    std::string mark;
    bool prepended = false;
  };
  using Step = std::variant<ByteLevel, ByteFallback, Fuse, Replace, Strip, Metaspace>;

  void read(const JsonPart& part);
  static Step read_replace(const JsonPart& part);
  static Step read_strip(const JsonPart& part);

  static void apply(const ByteLevel& step, std::vector<std::string>& tokens);
  static void apply(const ByteFallback& step, std::vector<std::string>& tokens);
  static void apply(const Fuse& step, std::vector<std::string>& tokens);
  static void apply(const Replace& step, std::vector<std::string>& tokens);
  static void apply(const Strip& step, std::vector<std::string>& tokens);
  static void apply(const Metaspace& step, std::vector<std::string>& tokens);

  bool present_ = false;
  std::vector<Step> steps_;
};

}  // namespace troupe::stages
