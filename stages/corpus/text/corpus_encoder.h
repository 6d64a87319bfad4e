#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "stages/corpus/chat/chat_template.h"
#include "stages/corpus/text/documents.h"
#include "stages/corpus/text/marks.h"
#include "stages/corpus/text/text_files.h"
#include "stages/corpus/tokenizers/tokenizer.h"
#include "stages/storage/progress.h"

namespace troupe::stages {

struct EncodeOptions {
  int threads = 1;    ///< threads that encode; the ids are the same for every number
  Progress progress;  ///< in bytes of text; after an exception from it no file is left
  /// Told, once for each file in which something is no UTF-8, how many places count as U+FFFD.
  std::function<void(const std::string&)> warn = {};
  Marks marks = {};  ///< what is put around each document but conversations
  /// Ids that are put behind each document. Training has none.
  std::vector<std::int32_t> append = {};
};

/// The options of training, in which a prompt has the ids with which a model is asked to answer it.
EncodeOptions for_training(EncodeOptions options, const Tokenizer& tokenizer, Documents documents,
                           const TextRules& rules);

/// What a document begins with.
enum class Opening { text, prompt };

/// What part of a dataset ends with a text.
enum class Ends { nothing, prompt, response, sequence, document };

/// Encodes texts in several threads and hands their ids on in the order of the texts. Memory is
/// bounded by one batch of text and its ids.
class CorpusEncoder {
 public:
  /// Called for each text in order, and with no ids where something ends, from the thread that adds
  /// the texts.
  using Use = std::function<void(std::span<const std::int32_t> ids, Ends ends)>;
  /// The tokenizer outlives the encoder; `total_bytes` is for the progress.
  CorpusEncoder(const Tokenizer& tokenizer, EncodeOptions options, std::uint64_t total_bytes,
                Use use);

  const Tokenizer& tokenizer() const { return tokenizer_; }
  /// Hands a sentence on to the options' `warn`, if it is not empty.
  void warn(const std::string& sentence) const {
    if (options_.warn && !sentence.empty()) options_.warn(sentence);
  }
  /// Where the tokenizer allows a document to be cut into pieces.
  Cuts cuts() const { return tokenizer_.cuts(); }

  // A document is begun, has its pieces added, and is ended. All of these throw what the tokenizer,
  // the use or the progress throws for any text so far.
  void begin_document(Opening opening);
  void add(const Piece& piece);
  /// Ends the prompt that the document begins with.
  void end_prompt() { batch_.push_back({.ends = Ends::prompt}); }
  /// Ends a sequence within the document.
  void end_sequence() { batch_.push_back({.ends = Ends::sequence}); }
  /// Ends the document and its last sequence.
  void end_document();
  /// Adds a document that is a conversation.
  void add_conversation(const ChatText& chat);
  /// Hands on the rest once every text has been added. Throws as add() does.
  void finish();

 private:
  struct Text {
    std::string text;
    Place place = Place::start;
    Ends ends = Ends::nothing;
    /// Bytes at which prompts and responses end in turn; once it is encoded, ids.
    std::vector<std::size_t> parts = {};
    std::vector<std::int32_t> ids = {};
  };
  void add_text(Text text);
  void encode(Text& text) const;
  void hand_on(const Text& text) const;
  void add_ids(const std::vector<std::int32_t>& ids) {
    if (!ids.empty()) batch_.push_back({.ids = ids});
  }
  void encode_batch();

  const Tokenizer& tokenizer_;
  const EncodeOptions options_;
  const std::uint64_t total_bytes_;
  const Use use_;
  std::vector<Text> batch_;
  std::size_t batch_bytes_ = 0;
  std::vector<std::int32_t> end_;  ///< what the document that is being added ends with
  std::uint64_t done_bytes_ = 0;
};

/// Bytes of all files together. Throws Error{data} naming one that cannot be read.
std::uint64_t size_of_files(const std::vector<std::string>& files);

}  // namespace troupe::stages
