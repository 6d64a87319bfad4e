#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "stages/corpus/tokenizers/cuts.h"

namespace troupe::stages {

/// Where a text lies that is encoded.
enum class Place {
  start,          ///< it begins a document
  after_newline,  ///< it continues a document, behind a newline or where else it was cut
};

/// A tokenizer that needs no network: "bytes" (id = byte value), a SentencePiece .model, a
/// tokenizer.json of Hugging Face's tokenizers, a tekken.json of Mistral, a file of tiktoken, or a
/// vocab.json beside its merges.txt. Const calls may run in any thread.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;
  /// Opens a tokenizer by its name in the manifest. Throws Error{data}, naming the file and the
  /// part at fault, if the file is missing or broken, or asks for what cannot be done exactly.
  static std::unique_ptr<Tokenizer> open(const std::string& name);
  /// The name by which it was opened.
  const std::string& name() const { return name_; }

  /// Ids are below this.
  virtual int vocab_size() const = 0;
  /// The id of a token by its name, as "</s>".
  virtual std::optional<std::int32_t> id_of(std::string_view token) const = 0;
  /// The name of a token, as id_of() takes it, of an id below vocab_size().
  virtual std::string name_of(std::int32_t id) const = 0;

  /// The ids that the tokenizer's own library gives a text, no special token added. Every invalid
  /// part of UTF-8 counts as one U+FFFD (valid_utf8), except that "bytes" keeps all bytes.
  virtual std::vector<std::int32_t> encode(std::string_view text,
                                           Place place = Place::start) const = 0;
  virtual Cuts cuts() const = 0;

  /// Special tokens that the tokenizer's library adds to a whole text where it is asked to: those
  /// of a tokenizer.json, or of the tokenizer_config.json beside a .model.
  struct Frame {
    std::vector<std::int32_t> before, after;
  };
  virtual Frame frame() const { return {}; }
  /// The ids of a prompt, with which a model is asked to go on: those of a document that begins
  /// with `before` and it. What documents end with is not there, because the text does not end.
  std::vector<std::int32_t> encode_prompt(std::string_view text,
                                          std::span<const std::int32_t> before) const;
  /// How many of the ids of a text lie before each of some bytes of it, given in ascending order. A
  /// token that lies before and behind such a byte counts as behind: the tokens before it are those
  /// that the text has, too, when it ends there. Each of the bytes costs as much as encoding the
  /// text up to it.
  std::vector<std::size_t> tokens_before(std::string_view text, std::span<const std::int32_t> ids,
                                         std::span<const std::size_t> bytes) const;

  /// The text of the ids, in which special tokens have none. From "bytes" these are the bytes as
  /// they are, which may end inside a UTF-8 sequence; else it is UTF-8. Throws Error{data} for an
  /// id outside the vocabulary.
  virtual std::string decode(std::span<const std::int32_t> ids) const = 0;

  /// A sentence on how its files were read, where versions of their library differ; else empty.
  virtual std::string note() const { return {}; }

 private:
  std::string name_;
};

/// The manifest's name of the tokenizer that needs no file.
inline constexpr std::string_view kBytesTokenizer = "bytes";

/// Limit of a tokenizer's file, far above any in use. It keeps a large file at a wrong path from
/// being read into memory.
inline constexpr std::uint64_t kMaxTokenizerBytes = 1'000'000'000;

/// Throws Error{data} for the first id that is not one of 0 ... vocab_size-1.
void check_decodable(std::span<const std::int32_t> ids, int vocab_size);

}  // namespace troupe::stages
