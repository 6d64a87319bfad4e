#pragma once

#include <cstdint>
#include <vector>

#include "stages/corpus/text/documents.h"
#include "stages/corpus/tokens/token_file.h"

namespace troupe::stages {

/// A sample: its inputs are the tokens [begin, begin + targets) of a token file, its targets those
/// one further.
struct Sample {
  std::int64_t begin = 0;
  std::int64_t targets = 0;
  std::int64_t masked = 0;  ///< how many of its targets train nothing
  int source = 0;           ///< number of the token file among those of a feed
  /// Targets that are trained.
  std::int64_t trained() const { return targets - masked; }
  bool operator==(const Sample&) const = default;
};

/// The samples of a token file in their order. Joined, sample n is the seq_len tokens from n *
/// seq_len on; tokens at the end that make no whole sample are in none. Else each document is cut
/// by itself, every seq_len tokens and at its end, so that each of its tokens but the first is a
/// target once; a document of one token or none has no sample. A piece whose targets are all masked
/// (TokenFile::masked) is no sample either.
class SampleTable {
 public:
  /// `tokens` outlives the table. Reads the bounds of every document and masked span once.
  SampleTable(const TokenFile& tokens, std::int64_t seq_len, Documents documents);
  std::int64_t size() const { return size_; }
  /// Needs 0 <= n < size(). Allocates nothing; any thread may call it.
  Sample operator[](std::int64_t n) const;

 private:
  std::int64_t pieces_of(std::int64_t document) const;
  Sample piece(std::int64_t document, std::int64_t number) const;
  std::int64_t samples_of(std::int64_t document) const;

  const TokenFile* tokens_;
  std::int64_t seq_len_;
  Documents documents_;
  std::int64_t size_ = 0;
  std::vector<std::int64_t> before_;  // samples of the documents before each kStride-th one
};

}  // namespace troupe::stages
