#pragma once

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "stages/corpus/tokens/token_file.h"

namespace troupe::test {

/// A token file in memory. Token i has the id ids[i].
class MemoryTokens final : public stages::TokenFile {
 public:
  /// One document.
  explicit MemoryTokens(std::vector<std::int32_t> ids)
      : ids_(std::move(ids)), begins_{0, std::ssize(ids_)} {}
  /// Documents of these lengths, whose tokens are 0, 1, 2, ...
  static MemoryTokens of_lengths(const std::vector<std::int64_t>& lengths) {
    std::vector<std::int64_t> begins{0};
    for (const std::int64_t length : lengths) begins.push_back(begins.back() + length);
    std::vector<std::int32_t> ids(static_cast<std::size_t>(begins.back()));
    for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<std::int32_t>(i);
    MemoryTokens tokens(std::move(ids));
    tokens.begins_ = std::move(begins);
    return tokens;
  }

  /// These documents with ids modulo `vocab`.
  MemoryTokens with_ids_below(std::int32_t vocab) const {
    MemoryTokens other = *this;
    for (std::int32_t& id : other.ids_) id %= vocab;
    return other;
  }

  /// These documents with `first` added to each id.
  MemoryTokens with_ids_from(std::int32_t first) const {
    MemoryTokens other = *this;
    for (std::int32_t& id : other.ids_) id += first;
    return other;
  }

  /// These documents with masked spans.
  MemoryTokens with_masked(std::vector<stages::TokenSpan> masked) const {
    MemoryTokens other = *this;
    other.masked_ = std::move(masked);
    return other;
  }
  /// These documents with prompts of these lengths, which are masked.
  MemoryTokens with_prompts(const std::vector<std::int64_t>& prompts) const {
    std::vector<stages::TokenSpan> masked;
    for (std::size_t i = 0; i < prompts.size(); ++i)
      if (prompts[i] > 0) masked.push_back({.begin = begins_[i], .end = begins_[i] + prompts[i]});
    return with_masked(std::move(masked));
  }

  const std::string& name() const override { return path_; }
  std::int64_t num_tokens() const override { return std::ssize(ids_); }
  void read(std::int64_t begin, std::span<std::int32_t> out) const override {
    std::copy_n(ids_.begin() + begin, out.size(), out.begin());
  }
  std::int64_t num_documents() const override { return std::ssize(begins_) - 1; }
  std::int64_t document_begin(std::int64_t i) const override {
    return begins_[static_cast<std::size_t>(i)];
  }
  std::int64_t num_masked() const override { return std::ssize(masked_); }
  stages::TokenSpan masked(std::int64_t i) const override {
    return masked_[static_cast<std::size_t>(i)];
  }

 private:
  std::string path_ = "corpus";
  std::vector<std::int32_t> ids_;
  std::vector<std::int64_t> begins_;
  std::vector<stages::TokenSpan> masked_;
};

}  // namespace troupe::test
