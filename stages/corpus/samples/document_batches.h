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
/// SamplePartition deals them out, lane by lane, and the rows after the last one, which complete a
/// multiple of `row_step`, belong to no document. Those after each other lane's, which complete a
/// multiple of its part of the step, are padding, and documents of their own: the lane is then as a
/// microbatch of a replica with one lane is. Lanes that are alike (FeedSpec) are completed to the
/// rows of the longest one of the microbatch in all replicas. The target of padding is kNoTarget.
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
  /// its document, and, if it is given, of `real` with 1, or 0 for padding. There is room for as
  /// many rows as a microbatch can have, and one start more.
  Rows lay_out(int replica, int microbatch, std::span<std::int32_t> starts,
               std::span<std::int32_t> positions, std::span<std::int32_t> real = {}) const;
  /// The rows of a lane in a packed microbatch.
  std::int64_t rows_of_lane(int replica, int microbatch, int lane) const;
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
  /// What its own samples need, if lanes are not alike.
  std::int64_t own_rows_of_lane(int replica, int microbatch, int lane) const;
  void find_rows_of_all();
  /// The samples of a lane in a packed microbatch, by their numbers in the step.
  std::span<const std::int32_t> samples_of_lane(int replica, int microbatch, int lane) const;

  const DataFeed* feed_;
  std::int64_t row_step_;
  std::vector<Sample> samples_;  // of the step
  SamplePartition partition_;
  std::vector<std::int64_t> rows_of_all_;  // by microbatch, of each lane, if they are alike
  std::int64_t num_targets_ = 0;
};

template <typename Use>
void DocumentBatches::for_each_sample(int replica, int microbatch, const Use& use) const {
  if (!is_packed())
    return feed_->for_each_number(replica, microbatch, [&](std::int64_t n, std::int64_t row) {
      use(samples_[static_cast<std::size_t>(n)], row);
    });
  std::int64_t begin = 0;
  for (int lane = 0; lane < feed_->spec().lanes; ++lane) {
    std::int64_t row = begin;
    for (const std::int32_t n : samples_of_lane(replica, microbatch, lane)) {
      const Sample& sample = samples_[static_cast<std::size_t>(n)];
      use(sample, row);
      row += sample.targets;
    }
    begin += rows_of_lane(replica, microbatch, lane);
  }
}

}  // namespace troupe::stages
