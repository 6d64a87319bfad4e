#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "stages/stage/gradient_pieces.h"
#include "stages/stage/stage_spec.h"

namespace troupe::stages {

/// Memory that buckets have in turn, because few of them are whole at once.
struct BucketSlots {
  std::vector<int> slot_of;           ///< by bucket
  std::vector<std::int64_t> offsets;  ///< by slot, elements
  std::int64_t size = 0;              ///< elements of all slots
  std::int64_t offset_of(std::size_t bucket) const {
    return offsets[static_cast<std::size_t>(slot_of[bucket])];
  }
};

/// Where a stage's parameters lie in each of its storages (weights, gradients, moments): float32,
/// canonical order, on 256-byte boundaries, except that those which one product computes with (q,
/// k, v; gate, up) follow each other directly, weights and biases apart. Elements between
/// parameters are zero. What the replicas divide is stored by slice. The frozen base of an adapter
/// lies apart.
struct ParameterLayout {
  /// Where a slice's rows of a parameter lie in a storage of slices.
  struct Place {
    std::int64_t offset = 0;
    tensor::Shape shape;
  };
  struct Entry {
    ParameterInfo info;
    std::int64_t offset = 0;  ///< elements
    tensor::Shape shape;      ///< of the shard's part
    /// Whether it lies in the storage of a frozen base (ModelConfig::adapter), from `offset` on: it
    /// has no gradient and no moments, and is whole on each replica. In the other storages it has
    /// no elements, and stands at `place`.
    bool is_apart = false;
    std::int64_t place = 0;  ///< elements; `offset`, unless it is apart
    tensor::Region region;   ///< Parameter::region
    bool owned = true;       ///< Parameter::owned
    bool owned_by_stage = true;
    bool is_expert = false;              ///< Parameter::is_expert
    std::vector<std::int64_t> row_cuts;  ///< Parameter::row_cuts
    int bucket = 0;                      ///< that the parameter is in
    /// In the storages of moments, where each slice begins on a boundary; without elements if the
    /// parameter is frozen.
    Place moments, twin_moments;
    /// In storages of slices of weights or gradients, where the slices of a bucket lie as they do
    /// in the bucket.
    Place kept, twin_kept;
  };
  std::vector<Entry> entries;
  std::vector<GradientPiece> pieces;  ///< of the gradients of all entries
  std::int64_t size = 0;              ///< elements of one storage
  std::int64_t apart = 0;             ///< elements of the storage of a frozen base
  std::int64_t moments = 0;           ///< elements of each storage of moments
  std::int64_t twin_moments = 0;      ///< the same, of the slice that is kept for another replica
  bool ties_head = false;             ///< the head's matrix is the embedding's
  /// Elements of the head's own gradient of a tied embedding in this stage.
  std::int64_t tied_size = 0;

  // What follows is there only if the replicas divide state.

  /// All parameters are in buckets. Behind these follows one for the head's use of a tied
  /// embedding, if the stage has both uses and divides gradients or weights.
  std::vector<Bucket> buckets;
  int head_use = -1;  ///< that bucket; -1: none
  /// By bucket: where this replica's slice, and its twin's, begin in storages of slices, and the
  /// elements of these slices.
  struct Kept {
    std::int64_t offset = 0, size = 0;
    std::int64_t twin_offset = 0, twin_size = 0;
  };
  std::vector<Kept> kept;
  std::int64_t kept_size = 0;       ///< elements of a storage of slices
  std::int64_t head_use_begin = 0;  ///< those of weights end here, without the head's use
  BucketSlots gradient_slots;       ///< with divided gradients
  /// With divided weights, those of forwards and evaluations, and of backwards; the second are
  /// empty if weights stay gathered.
  BucketSlots forward_slots, backward_slots;

  /// The parameters of numbers_of() that have gradients.
  std::vector<int> trained_of(Module module, int layer) const;
  /// Numbers in Stage::parameters() of a module's parameters, or of those that are one field of it;
  /// `layer` if it is one of a layer's. The head of a tied embedding has that one's.
  std::vector<int> numbers_of(Module module, std::optional<Field> field = {}, int layer = 0) const;
  /// The number of the matrix of token embeddings, if the stage has it.
  std::optional<std::size_t> table() const;
  /// Numbers in Stage::buckets() of a module's buckets, each once: those to which its weight
  /// gradients add, and whose weights it reads.
  std::vector<int> buckets_of(Module module, int layer) const;
  /// The bucket with the first parameter of a layer (ParameterInfo::layer), or with the head's
  /// matrix.
  int bucket_of(int layer) const;
  int bucket_of_head(const ModelConfig& model) const;
  /// That with the experts of a layer, which is bucket_of() it unless replicas share experts out.
  int bucket_of_experts(int layer) const;
  /// Whether a bucket's parameters are matrices of experts (StateBucket::is_expert).
  bool has_experts(const Bucket& bucket) const {
    return entries[static_cast<std::size_t>(bucket.parameters.first)].is_expert;
  }
  /// The buckets that replicas reduce: `buckets`, or if there are none those that the rule cuts.
  std::vector<Bucket> buckets_by(const BucketRule& rule) const;
};

ParameterLayout lay_out_parameters(const StageSpec& spec);
/// Makes the layout of one replica that of another, `state.index`; the rest of `state` is the same.
void keep_slices(const StateSharding& state, ParameterLayout& layout);

}  // namespace troupe::stages
