#pragma once

#include <vector>

#include "stages/model/model_config.h"
#include "tensor/values/region.h"

// How tensor parallelism divides a model's parameters among the shards of a stage.

namespace troupe::stages {

/// A stage's place among the `size` shards that compute its layers together, and among the `ep`
/// neighbouring replicas that share out the experts of each layer.
struct Sharding {
  int size = 1;
  int shard = 0;
  /// Whether norms and residuals are split along the sequence too (arXiv 2205.05198).
  bool sequence_parallel = false;
  int ep = 1;         ///< divides the number of experts
  int ep_member = 0;  ///< which of these replicas this one is
  /// Whether every shard holds experts whole, and computes with them for its own tokens alone.
  /// Needs sequence_parallel.
  bool whole_experts = false;
  bool operator==(const Sharding&) const = default;
};

/// Whether the replica holds a parameter: all do, but for matrices of experts, of which each of the
/// `ep` has an equal run.
bool holds_expert(const ParameterInfo& info, const ModelConfig& model, const Sharding& sharding);

/// Rows of the vocabulary that each of `shards` shards has room for; the last ones may be padding.
std::int64_t vocab_rows(std::int64_t vocab_size, int shards);

/// How many consecutive shards hold the same key and value heads.
int shards_per_kv_head(const ModelConfig& model, int shards);

/// What a shard holds of a parameter, in the coordinates of the whole matrix: no elements of an
/// expert's if another replica holds that. Requires a model that check_sharding accepts.
tensor::Region region_of(const ParameterInfo& info, const ModelConfig& model,
                         const Sharding& sharding);
/// Whether the shard is the first to hold these elements. It counts and saves them; further holders
/// have copies, which are updated alike.
bool owns_region(const ParameterInfo& info, const ModelConfig& model, const Sharding& sharding);
/// Whether the gradient of the parameter is a part of a sum over all shards, each of which holds
/// all of it; and whether that is so of any of the model's.
bool sums_gradient(const ParameterInfo& info, const Sharding& sharding);
bool sums_gradients(const ModelConfig& model, const Sharding& sharding);
/// The regions of all shards of such a division that own theirs, by shard, whichever replica holds
/// an expert: together the whole parameter, each element once.
std::vector<tensor::Region> owned_regions(const ParameterInfo& info, const ModelConfig& model,
                                          const Sharding& sharding);
/// The elements that one shard sends to another when training state moves, perhaps of another
/// number of shards: all that both hold if they have the same place, else what the sender owns of
/// that. All shards of one number together give a receiver each of its elements once, if their
/// replicas hold the experts that it does.
tensor::Region moved_region(const ParameterInfo& info, const ModelConfig& model,
                            const Sharding& from, const Sharding& to);
/// The tensor that a shard computes with: region_of(), and after it the rows of padding.
tensor::Shape local_shape(const ParameterInfo& info, const ModelConfig& model,
                          const Sharding& sharding);

/// Shape of the tensors that travel between chunks, one microbatch of `tokens` tokens: all of it
/// [tokens, hidden_size], or the shard's slice. With sequence parallelism a shard has the tokens of
/// its slice, [tokens / size, hidden_size]; else it sends an equal part of the flat tensor, all of
/// which it has, and the receiving shards gather the parts.
tensor::Shape edge_shape(std::int64_t tokens, std::int64_t hidden_size, const Sharding& sharding);

/// Whether chunks exchange slices of tensors that every shard has, which the receivers gather.
bool gathers_edges(const Sharding& sharding);

/// Why so many shards cannot divide the model: an empty string if they can, else one sentence with
/// the field, the rule and its numbers, and the nearest valid number of shards.
std::string check_sharding(const ModelConfig& model, int shards, bool whole_experts = false);

/// Whether `ep` replicas can share out the model's experts; one can in any case.
bool shares_experts(const ModelConfig& model, int ep);

}  // namespace troupe::stages
