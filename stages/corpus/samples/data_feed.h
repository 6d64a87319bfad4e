#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "stages/corpus/samples/mixture.h"
#include "stages/corpus/samples/sample_table.h"
#include "stages/corpus/tokens/token_file.h"

namespace troupe::stages {

/// Which samples a step uses. replicas * lanes * micro divides global.
struct FeedSpec {
  Documents documents = Documents::joined;
  std::int64_t seq_len = 0;  ///< tokens of a sample, of a document's the most
  std::int64_t micro = 1;    ///< samples of a lane's microbatch
  std::int64_t global = 1;   ///< samples per step, over all replicas
  int replicas = 1;
  /// The samples of a microbatch are those of so many lanes, one after the other: of the replicas
  /// of the stage that has most, those with which this stage's replica exchanges tensors.
  int lanes = 1;
  /// Whether all lanes of a packed microbatch have as many rows, those of the longest one in all
  /// replicas. Then all stages cut its rows at the same ones, however wide they are.
  bool lanes_alike = false;
  bool shuffle = false;
  std::uint64_t seed = 0;
  std::int64_t vocab_size = 0;  ///< every id must be below it
  /// Added to every sample's number. Not 0 after a resume with another batch size, because its
  /// steps count on from the sample that the checkpoint names.
  std::int64_t origin = 0;
  /// Whether each sample is read once: the positions from num_samples() on hold none, but rows
  /// whose targets are masked (Sample::trained() is 0), so that any number of samples fills whole
  /// steps.
  bool once = false;
};

/// Tokens of one source, and how often its samples are drawn beside those of other sources.
struct FeedSource {
  std::unique_ptr<TokenFile> tokens;
  double weight = 1;  ///< above 0
};

/// Samples as a pure function of the step: step k (from 0) holds the positions origin + k*G ...
/// origin + k*G+G-1. A Mixture says which sample of which source each is, counted modulo the
/// source's number of samples, in the table's order or in a shuffled one, which is in
/// stages/corpus/README.md. Const calls may run in any thread and allocate nothing.
class DataFeed {
 public:
  /// Throws Error{data} if the tokens of a source do not make one sample.
  DataFeed(std::vector<FeedSource> sources, const FeedSpec& spec);
  /// One source.
  DataFeed(std::unique_ptr<TokenFile> tokens, const FeedSpec& spec);
  ~DataFeed();
  const FeedSpec& spec() const { return spec_; }
  int num_sources() const;
  /// Samples of all sources.
  std::int64_t num_samples() const;
  /// The n-th sample of a step, 0 <= n < G. Throws Error{data} if samples are documents and their
  /// file was cut.
  Sample sample(std::int64_t step, std::int64_t n) const;
  /// Calls use(n, row) for each sample of a microbatch of whole samples, with its number in the
  /// step and its first row: lane d takes the d-th contiguous G/D of the step's, its microbatch j
  /// the j-th contiguous `micro` of these.
  template <typename Use>
  void for_each_number(int replica, int microbatch, const Use& use) const {
    const std::int64_t of_lane = spec_.global / (spec_.replicas * spec_.lanes);
    for (std::int64_t lane = 0; lane < spec_.lanes; ++lane) {
      const std::int64_t first =
          (replica * spec_.lanes + lane) * of_lane + microbatch * spec_.micro;
      for (std::int64_t i = 0; i < spec_.micro; ++i)
        use(first + i, (lane * spec_.micro + i) * spec_.seq_len);
    }
  }
  /// Calls use(sample, row) for each sample of such a microbatch.
  template <typename Use>
  void for_each_sample(std::int64_t step, int replica, int microbatch, const Use& use) const {
    for_each_number(replica, microbatch,
                    [&](std::int64_t n, std::int64_t row) { use(sample(step, n), row); });
  }
  /// Fills a sample's ids and targets, sample.targets of each; masked targets become
  /// tensor::kNoTarget. Throws Error{data} for a token that is not below vocab_size, and if the
  /// file was cut.
  void read(const Sample& sample, std::span<std::int32_t> ids,
            std::span<std::int32_t> targets) const;
  /// Fills ids and targets, each [lanes * micro * seq_len], with the samples of for_each_sample().
  /// Throws as read() does.
  void microbatch(std::int64_t step, int replica, int microbatch, std::span<std::int32_t> ids,
                  std::span<std::int32_t> targets) const;

 private:
  struct Source;
  const TokenFile& tokens_of(int source) const;
  /// What stands where no sample is: as few rows as the layout allows.
  Sample blank() const;

  FeedSpec spec_;
  std::vector<Source> sources_;
  Mixture mixture_;
};

}  // namespace troupe::stages
