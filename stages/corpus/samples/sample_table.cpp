#include "stages/corpus/samples/sample_table.h"

#include <algorithm>

namespace troupe::stages {
namespace {

/// Documents whose samples are counted anew for each look-up, so that a corpus of many documents
/// takes little memory.
constexpr std::int64_t kStride = 16;

}  // namespace

SampleTable::SampleTable(const TokenFile& tokens, std::int64_t seq_len, Documents documents)
    : tokens_(&tokens), seq_len_(seq_len), documents_(documents) {
  if (documents == Documents::joined) {
    size_ = (tokens.num_tokens() - 1) / seq_len;
    return;
  }
  for (std::int64_t d = 0; d < tokens.num_documents(); ++d) {
    if (d % kStride == 0) {
      tokens.refuse_if_cut();
      before_.push_back(size_);
    }
    size_ += samples_of(d);
  }
}

/// The pieces that a document is cut into, those that are no samples among them.
std::int64_t SampleTable::pieces_of(std::int64_t document) const {
  const std::int64_t tokens =
      tokens_->document_begin(document + 1) - tokens_->document_begin(document);
  return tokens < 2 ? 0 : (tokens - 1 + seq_len_ - 1) / seq_len_;
}

Sample SampleTable::piece(std::int64_t document, std::int64_t number) const {
  const std::int64_t begin = tokens_->document_begin(document) + number * seq_len_;
  const std::int64_t last = tokens_->document_begin(document + 1) - 1;
  const std::int64_t targets = std::min(seq_len_, last - begin);
  return {.begin = begin,
          .targets = targets,
          .masked = count_masked(*tokens_, {.begin = begin + 1, .end = begin + 1 + targets})};
}

std::int64_t SampleTable::samples_of(std::int64_t document) const {
  const std::int64_t pieces = pieces_of(document);
  if (tokens_->num_masked() == 0) return pieces;
  std::int64_t samples = 0;
  for (std::int64_t i = 0; i < pieces; ++i) samples += piece(document, i).trained() > 0;
  return samples;
}

Sample SampleTable::operator[](std::int64_t n) const {
  if (documents_ == Documents::joined) return {.begin = n * seq_len_, .targets = seq_len_};
  const auto after = std::upper_bound(before_.begin(), before_.end(), n);
  std::int64_t document = (after - before_.begin() - 1) * kStride;
  n -= *(after - 1);
  for (std::int64_t count; n >= (count = samples_of(document)); ++document) n -= count;
  if (tokens_->num_masked() == 0) return piece(document, n);
  for (std::int64_t i = 0;; ++i)
    if (const Sample sample = piece(document, i); sample.trained() > 0 && n-- == 0) return sample;
}

}  // namespace troupe::stages
