#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace troupe::stages {

/// A tokenizer that needs no network: "bytes" (id = byte value) or a SentencePiece .model file.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;
  /// Opens by manifest name. Throws Error{data} if the file is missing or no SentencePiece model.
  static std::unique_ptr<Tokenizer> open(const std::string& name);
  virtual int vocab_size() const = 0;
  virtual std::vector<std::int32_t> encode(std::string_view text) const = 0;
  /// Bytes of the text; a token may end inside a UTF-8 sequence.
  virtual std::string decode(std::span<const std::int32_t> ids) const = 0;
};

/// UTF-8 with every invalid byte replaced by U+FFFD.
std::string valid_utf8(std::string_view bytes);

/// One stream of tokens in a memory-mapped file.
struct TokenSource {
  std::vector<std::string> files;  ///< text files in order, or one Megatron .bin/.idx prefix or .bin file
  std::string tokenizer = "bytes";
};

/// Turns the source into a token cache file once (keyed by path, size, mtime and tokenizer of every file; found again
/// by the next run) and returns its path. Memory stays bounded for any size of text. A .bin with its .idx is used as it
/// is. Throws Error{data} for missing or empty files, naming them.
std::string prepare_tokens(const TokenSource& source, const std::string& cache_dir);

/// Reads a file made by prepare_tokens, or a Megatron .bin/.idx pair. Checks it before use (Error{data}).
class TokenFile {
 public:
  static std::unique_ptr<TokenFile> open(const std::string& path);
  virtual ~TokenFile() = default;
  virtual std::int64_t num_tokens() const = 0;
  /// out[i] = token begin + i. Throws Error{data} for an id that does not fit vocab_size, naming its position.
  virtual void read(std::int64_t begin, std::span<std::int32_t> out) const = 0;
};

/// Which samples a step uses.
struct FeedSpec {
  std::int64_t seq_len = 0;
  std::int64_t micro = 1;
  std::int64_t global = 1;  ///< samples per step, over all replicas
  int replicas = 1;
  bool shuffle = false;
  std::uint64_t seed = 0;
  std::int64_t vocab_size = 0;  ///< ids must be below it
};

/// Microbatches as a pure function of (step, replica, microbatch): sample n is tokens [n*S, n*S+S), its targets one
/// further; step k (from 0) holds samples k*G ... k*G+G-1 modulo the number of samples; replica d takes the d-th
/// contiguous G/D of them, its microbatch j the j-th contiguous `micro`. The shuffled order is in stages/README.md.
class DataFeed {
 public:
  /// Throws Error{data} if the tokens do not make one sample.
  DataFeed(std::unique_ptr<TokenFile> tokens, const FeedSpec& spec);
  ~DataFeed();
  std::int64_t num_samples() const;
  /// Fills ids and targets, each [micro * seq_len].
  void microbatch(std::int64_t step, int replica, int microbatch, std::span<std::int32_t> ids,
                  std::span<std::int32_t> targets) const;

 private:
  std::unique_ptr<TokenFile> tokens_;
  FeedSpec spec_;
};

}  // namespace troupe::stages
