#include "stages/data/sample_table.h"

#include <algorithm>

namespace troupe::stages {
namespace {

/// Documents whose samples are counted anew for each look-up, so that a corpus of many documents
/// takes little memory.
constexpr std::int64_t kStride = 64;

}  // namespace

SampleTable::SampleTable(const TokenFile& tokens, std::int64_t seq_len, Documents documents)
    : tokens_(&tokens), seq_len_(seq_len), documents_(documents) {
  if (documents == Documents::joined) {
    size_ = (tokens.num_tokens() - 1) / seq_len;
    return;
  }
  for (std::int64_t d = 0; d < tokens.num_documents(); ++d) {
    if (d % kStride == 0) before_.push_back(size_);
    size_ += samples_of(d);
  }
}

/// The pieces of a document all of whose targets are of its prompt: those of piece i are the tokens
/// i * seq_len + 1 to (i + 1) * seq_len.
std::int64_t SampleTable::skipped_pieces(std::int64_t document) const {
  return std::max<std::int64_t>(tokens_->prompt_length(document) - 1, 0) / seq_len_;
}

std::int64_t SampleTable::samples_of(std::int64_t document) const {
  const std::int64_t tokens =
      tokens_->document_begin(document + 1) - tokens_->document_begin(document);
  if (tokens < 2 || tokens_->prompt_length(document) == tokens) return 0;
  return (tokens - 1 + seq_len_ - 1) / seq_len_ - skipped_pieces(document);
}

Sample SampleTable::operator[](std::int64_t n) const {
  if (documents_ == Documents::joined) return {.begin = n * seq_len_, .targets = seq_len_};
  const auto after = std::upper_bound(before_.begin(), before_.end(), n);
  std::int64_t document = (after - before_.begin() - 1) * kStride;
  std::int64_t piece = n - *(after - 1);
  for (std::int64_t count; piece >= (count = samples_of(document)); ++document) piece -= count;
  const std::int64_t first = tokens_->document_begin(document);
  const std::int64_t begin = first + (skipped_pieces(document) + piece) * seq_len_;
  const std::int64_t last = tokens_->document_begin(document + 1) - 1;
  const std::int64_t of_prompt = first + tokens_->prompt_length(document) - (begin + 1);
  return {.begin = begin,
          .targets = std::min(seq_len_, last - begin),
          .masked = std::max<std::int64_t>(of_prompt, 0)};
}

}  // namespace troupe::stages
