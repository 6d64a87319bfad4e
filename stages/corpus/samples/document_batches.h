#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "stages/corpus/samples/data_feed.h"
#include "stages/corpus/samples/sample_partition.h"

namespace troupe::stages {

/// The microbatches of a step whose samples are documents. Every rank computes the same from the
/// bounds of the documents alone: how many targets the step has, and which documents the rows of a
/// microbatch are.
///
/// The rows of a microbatch are divided into documents, which follow each other from row 0 on.
/// Padded, row i * seq_len begins the i-th sample, whose padding is a document of its own, and the
/// samples are those of DataFeed::microbatch(). Packed, the samples follow each other as the step's
/// SamplePartition deals them out, replica by replica, and the rows after the last one, which
/// complete a multiple of `row_step`, belong to no document. The target of padding is kNoTarget.
class DocumentBatches {
 public:
  struct Rows {
    std::int64_t rows = 0;       ///< with padding
    std::int64_t documents = 0;  ///< with padding that is a document
  };

  /// `feed` outlives the object and is not of joined samples.
  DocumentBatches(const DataFeed& feed, std::int64_t row_step);
  /// Chooses the samples of a step. Neither this nor what follows allocates.
  void begin(std::int64_t step);
  /// Targets of the step, those of all replicas.
  std::int64_t num_targets() const { return num_targets_; }
  /// The size of a microbatch: its first `documents` + 1 of starts are filled with the row at which
  /// each document begins and the last one ends, and `rows` of positions with each row's place in
  /// its document. There is room for as many rows as a microbatch can have, and one start more.
  Rows lay_out(int replica, int microbatch, std::span<std::int32_t> starts,
               std::span<std::int32_t> positions) const;
  /// Calls use(sample, row) for each sample of a microbatch, with its first row. The rows of the
  /// sample's targets follow each other.
  template <typename Use>
  void for_each_sample(int replica, int microbatch, const Use& use) const;
  /// Fills `rows` ids and targets each. Throws Error{data} for a token that is not below
  /// vocab_size.
  void read(int replica, int microbatch, std::span<std::int32_t> ids,
            std::span<std::int32_t> targets) const;

 private:
  bool is_packed() const { return feed_->spec().documents == Documents::packed; }
  /// The number of a microbatch among those of all replicas.
  int number_of(int replica, int microbatch) const;

  const DataFeed* feed_;
  std::int64_t row_step_;
  std::vector<Sample> samples_;  // of the step
  SamplePartition partition_;
  std::int64_t num_targets_ = 0;
};

template <typename Use>
void DocumentBatches::for_each_sample(int replica, int microbatch, const Use& use) const {
  const FeedSpec& spec = feed_->spec();
  const int number = number_of(replica, microbatch);
  if (!is_packed()) {
    for (std::int64_t i = 0; i < spec.micro; ++i)
      use(samples_[static_cast<std::size_t>(number * spec.micro + i)], i * spec.seq_len);
    return;
  }
  std::int64_t row = 0;
  for (const std::int32_t n : partition_.microbatch(number)) {
    const Sample& sample = samples_[static_cast<std::size_t>(n)];
    use(sample, row);
    row += sample.targets;
  }
}

}  // namespace troupe::stages
