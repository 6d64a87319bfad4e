#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "actors/topology/reports/reports.h"
#include "stages/corpus/token_data.h"
#include "stages/stage/row_sizes.h"
#include "stages/stage/stage.h"

namespace troupe::actors {

class TokenBroadcast;

/// The tokens of a rank's microbatches, and which documents they are, read by the rank itself or by
/// the first shard of its stage. Used by the compute thread alone. Allocates nothing after
/// construction.
class StepTokens {
 public:
  /// What is pointed to outlives this object.
  struct Source {
    /// Null on a rank that reads nothing: it has no use of tokens, or receives them. A rank that
    /// has no use of tokens still reads the bounds of documents.
    const stages::DataFeed* feed = nullptr;
    /// Shares what one shard's feed reads; null if every shard has a feed.
    TokenBroadcast* broadcast = nullptr;
    stages::Documents documents = stages::Documents::joined;
    int replica = 0;
    stages::RowSizes rows{};   ///< of a microbatch
    std::int64_t samples = 1;  ///< number of samples in a microbatch; of documents the mean
    int lanes = 1;             ///< FeedSpec::lanes
    /// The equal parts in which all stages cut a tensor between them (pieces_of()), of packed
    /// documents whose lanes are alike. 0: each lane has rows of its own.
    int pieces = 0;
    int num_microbatches = 0;
    /// Sources whose losses the rank tells apart; 0: none. The rank then has a feed.
    int num_sources = 0;
    bool tells_padding = false;  ///< whether routers ask which rows of documents are padding
  };
  /// `device` outlives the object.
  StepTokens(const Source& source, tensor::Device& device);

  /// Called before the first action of a step, `step` counted from 0. Chooses the documents of the
  /// step. If one shard reads, gives every shard what it has read for the whole step, and returns
  /// the seconds that this took. Not each microbatch when its turn comes, because shards may begin
  /// the two actions of a pair in another order.
  double begin(std::int64_t step);
  /// Reads the microbatch's tokens, if the rank has a feed of its own and has not read them in this
  /// step: the device may be reading them. Called before ids() and targets() of it.
  void load(int microbatch);
  // Pinned memory that holds the microbatch's tokens until its load() in the next step.
  std::span<const std::int32_t> ids(int microbatch) const;
  std::span<const std::int32_t> targets(int microbatch) const;
  /// The microbatch's documents, valid until the next begin(); none if samples are joined.
  stages::DocumentRows documents(int microbatch) const;
  /// Targets of the step in all replicas; 0 if samples are joined.
  std::int64_t num_targets() const;
  /// Adds each source's targets in a microbatch, and their losses, to its sum. `losses` has one for
  /// each row. Called after load().
  void add_by_source(int microbatch, std::span<const double> losses,
                     std::span<StepReport::SourceSum> sums) const;
  /// The rows of a lane in a microbatch of packed documents, from what this rank's feed reads.
  std::int64_t rows_of_lane(int microbatch, int lane) const {
    return batches_->rows_of_lane(source_.replica, microbatch, lane);
  }
  /// The part of a tensor between chunks that the microbatch's rows use.
  tensor::Tensor used_part(const tensor::Tensor& edge, int microbatch) const;
  /// Where the microbatch stands in the data.
  stages::BatchPlace place_of(int microbatch) const;

 private:
  /// What a step has of each microbatch, in this order in memory. Joined samples have the first two
  /// alone; real is there if source_.tells_padding.
  enum class Field { ids, targets, positions, starts, sizes, real };

  bool has_documents() const { return source_.documents != stages::Documents::joined; }
  std::int64_t size_of(Field field) const;
  std::int64_t offset_of(Field field) const;
  /// Sizes: the number of rows and of documents.
  std::span<std::int32_t> part(Field field, int microbatch) const;
  std::span<std::int32_t> all() const;
  void lay_out_documents(std::int64_t step);
  void read(int microbatch);

  const Source source_;
  std::optional<stages::DocumentBatches> batches_;
  std::int64_t step_ = 0;
  const tensor::Buffer memory_;  // int32: the fields, then the two halves of num_targets()
  std::vector<char> is_loaded_;  // by microbatch, of the present step
};

}  // namespace troupe::actors
