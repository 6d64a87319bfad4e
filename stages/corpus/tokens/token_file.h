#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace troupe::stages {

/// The tokens [begin, end) of a file.
struct TokenSpan {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  bool operator==(const TokenSpan&) const = default;
};

/// One stream of token ids in a file, and where its documents begin. Const calls may run in any
/// thread and allocate nothing.
class TokenFile {
 public:
  /// Opens a file made by prepare_tokens, or a Megatron dataset by the name of its .bin or by the
  /// prefix that .bin and .idx share. Throws Error{data} naming the file if it is missing or its
  /// header or length is wrong.
  static std::unique_ptr<TokenFile> open(const std::string& path);
  /// Opens a file as open(path) does, with `name` as name(): the name of the text that the tokens
  /// were made from.
  static std::unique_ptr<TokenFile> open(const std::string& path, const std::string& name);
  virtual ~TokenFile() = default;
  /// The name that messages use for the file.
  virtual const std::string& name() const = 0;
  virtual std::int64_t num_tokens() const = 0;
  /// out[i] = token begin + i, as the file has it. The caller keeps the range within num_tokens().
  /// Throws Error{data} if the file no longer has them.
  virtual void read(std::int64_t begin, std::span<std::int32_t> out) const = 0;
  /// Throws Error{data} if the file that holds documents and masked spans has become shorter.
  /// Called before these are looked up, since they are mapped: what a file has lost ends a process
  /// that looks there.
  virtual void refuse_if_cut() const {}
  virtual std::int64_t num_documents() const = 0;
  /// The first token of a document, counted from 0; num_tokens() for i = num_documents().
  virtual std::int64_t document_begin(std::int64_t i) const = 0;
  /// Spans of tokens that are no targets, as prompts; none where prompts are not told apart.
  virtual std::int64_t num_masked() const { return 0; }
  /// Such a span. None is empty, and each begins where the one before it ends, or later.
  virtual TokenSpan masked([[maybe_unused]] std::int64_t i) const { return {}; }
};

/// The first masked span that ends behind a token; num_masked() if there is none.
std::int64_t first_masked_after(const TokenFile& tokens, std::int64_t token);

/// Calls use(part) for each part of a span of tokens that is masked, in order. Allocates nothing.
template <typename Use>
void for_each_masked(const TokenFile& tokens, const TokenSpan& span, const Use& use) {
  for (std::int64_t i = first_masked_after(tokens, span.begin); i < tokens.num_masked(); ++i) {
    const TokenSpan masked = tokens.masked(i);
    if (masked.begin >= span.end) return;
    use(TokenSpan{.begin = masked.begin < span.begin ? span.begin : masked.begin,
                  .end = masked.end < span.end ? masked.end : span.end});
  }
}

/// How many tokens of a span are masked.
std::int64_t count_masked(const TokenFile& tokens, const TokenSpan& span);

}  // namespace troupe::stages
