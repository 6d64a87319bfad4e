#pragma once

#include <cstdint>
#include <vector>

#include "stages/data/documents.h"
#include "stages/data/token_file.h"

namespace troupe::stages {

/// A sample: its inputs are the tokens [begin, begin + targets) of a token file, its targets those
/// one further.
struct Sample {
  std::int64_t begin = 0;
  std::int64_t targets = 0;
  std::int64_t masked = 0;  ///< the first targets, which are of a prompt and train nothing
  int source = 0;           ///< number of the token file among those of a feed
  /// Targets that are trained.
  std::int64_t trained() const { return targets - masked; }
  bool operator==(const Sample&) const = default;
};

/// The samples of a token file in their order. Joined, sample n is the seq_len tokens from n *
/// seq_len on; tokens at the end that make no whole sample are in none. Else each document is cut
/// by itself, every seq_len tokens and at its end, so that each of its tokens but the first is a
/// target once; a document of one token or none has no sample. Tokens of its prompt
/// (TokenFile::prompt_length) are masked, and pieces before the one with the first other target are
/// no samples.
class SampleTable {
 public:
  /// `tokens` outlives the table. Reads the bounds of every document once.
  SampleTable(const TokenFile& tokens, std::int64_t seq_len, Documents documents);
  std::int64_t size() const { return size_; }
  /// Needs 0 <= n < size(). Allocates nothing; any thread may call it.
  Sample operator[](std::int64_t n) const;

 private:
  std::int64_t skipped_pieces(std::int64_t document) const;
  std::int64_t samples_of(std::int64_t document) const;

  const TokenFile* tokens_;
  std::int64_t seq_len_;
  Documents documents_;
  std::int64_t size_ = 0;
  std::vector<std::int64_t> before_;  // samples of the documents before each kStride-th one
};

}  // namespace troupe::stages
