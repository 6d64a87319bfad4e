#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "stages/data/text_files.h"
#include "stages/data/tokenizer.h"

namespace troupe::stages {

/// How much of a long work is done, in bytes of text. Called now and then, and at the end with both
/// alike, from the thread that asked for the work. What it throws ends the work, which then leaves
/// no file behind.
using Progress = std::function<void(std::uint64_t done, std::uint64_t total)>;

struct EncodeOptions {
  int threads = 1;  ///< that encode at once; the ids are the same for every number
  Progress progress;
};

/// What of a dataset is complete with a text.
enum class Ends { nothing, sequence, document };

/// Encodes texts in several threads and hands their ids on in the order of the texts. Memory stays
/// bounded: a batch of text and its ids.
class CorpusEncoder {
 public:
  /// Called for each text in order, with what it was added with, from the thread that adds them.
  using Use = std::function<void(std::span<const std::int32_t> ids, Ends ends)>;
  /// The tokenizer outlives the encoder; `total_bytes` is for the progress.
  CorpusEncoder(const Tokenizer& tokenizer, EncodeOptions options, std::uint64_t total_bytes,
                Use use);

  /// A piece that follows a newline is encoded as it is after one: what a SentencePiece model puts
  /// before a text stands before the first piece alone. Throws what the tokenizer, the use or the
  /// progress throws, of any text so far.
  void add(const Piece& piece, Ends ends = Ends::nothing);
  /// Every text has been added. Throws as add().
  void finish();

 private:
  struct Text {
    std::string text;  ///< with the newline before it
    bool after_newline = false;
    Ends ends = Ends::nothing;
    std::vector<std::int32_t> ids;
  };
  void encode_batch();
  void encode(Text& text) const;

  const Tokenizer& tokenizer_;
  const EncodeOptions options_;
  const std::uint64_t total_bytes_;
  const Use use_;
  const std::vector<std::int32_t> newline_;  ///< what a newline alone is
  std::vector<Text> batch_;
  std::size_t batch_bytes_ = 0;
  std::uint64_t done_bytes_ = 0;
};

/// Bytes of all files together. Throws Error{data} naming one that cannot be read.
std::uint64_t size_of_files(const std::vector<std::string>& files);

}  // namespace troupe::stages
