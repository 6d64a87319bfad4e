#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "stages/model/parameter_group.h"
#include "stages/stage/buckets.h"
#include "tensor/values/region.h"
#include "tensor/values/tensor.h"

namespace troupe::stages {

/// A slice (Parameter::row_cuts) of a tensor that holds `region` and maybe rows of padding after
/// it, without the padding.
inline tensor::Region cut_region(const tensor::Region& region,
                                 std::span<const std::int64_t> row_cuts, int slice) {
  if (row_cuts.empty()) return region;
  const auto i = static_cast<std::size_t>(slice);
  tensor::Region kept = region;
  kept.row += row_cuts[i];
  kept.rows = row_cuts[i + 1] - row_cuts[i];
  return intersection(kept, region);
}

/// A parameter that a stage holds, with its training state. All tensors but the weight are empty in
/// a stage that does not train, and of the base of an adapter (UpdateRule::is_base), of which each
/// replica keeps all. Views stay valid as long as the stage.
struct Parameter {
  std::string name;         ///< ParameterInfo::name
  std::int64_t offset = 0;  ///< elements of the stage's layout, that of gradients() and weights()
  tensor::Tensor weight{};  ///< float32 master; if weights are divided, where a forward reads it
  /// float32, the sum of the step so far, once there is a first one; if gradients are divided, that
  /// of a microbatch.
  tensor::Tensor gradient{};
  /// The weight and the gradient of this replica's slice: parts of those above, or, if the replicas
  /// divide them, the only ones that stay, where gradients are the sum of all replicas and of the
  /// microbatches so far.
  tensor::Tensor kept_weight{};
  tensor::Tensor kept_gradient{};
  /// The moments of this replica's slice, which is all unless the replicas divide them. Without
  /// rows, or if the parameter is frozen, tensors of no elements.
  tensor::Tensor exp_avg{};
  tensor::Tensor exp_avg_sq{};
  /// Weight, gradient and moments of `twin_slice`; empty if it is none.
  tensor::Tensor twin_weight{};
  tensor::Tensor twin_gradient{};
  tensor::Tensor twin_exp_avg{};
  tensor::Tensor twin_exp_avg_sq{};
  /// Its weight decay is 0 for norms and biases, unless a group or StageSpec::decay_all gives one.
  UpdateRule update{};
  /// Whether this stage owns the parameter. False for a copy of a parameter that another stage
  /// owns: the head's of a tied embedding, or a whole chunk's (ChunkSpec::owned). It is updated
  /// alike, but counted and saved by the owner. False too for a copy of what another shard owns.
  bool owned = true;
  /// Whether this stage owns the parameter, through this shard or another one: it lies in the
  /// stage's files of a checkpoint.
  bool owned_by_stage = true;
  /// Whether it is a matrix of an expert where replicas share these out (Sharding::ep): those that
  /// hold the same experts complete its gradient and divide its state.
  bool is_expert = false;
  tensor::Shape whole_shape{};  ///< of the parameter that the shards together hold
  /// The elements of the whole parameter that this stage holds, row by row; rows of padding may
  /// follow them in each tensor.
  tensor::Region region{};
  /// Where the replicas cut the rows of the tensors: slice i, from row_cuts[i] to row_cuts[i + 1],
  /// is kept and updated by replica i. Empty: there is one slice, of all rows.
  std::vector<std::int64_t> row_cuts{};
  int slice = 0;        ///< this replica's
  int twin_slice = -1;  ///< another replica's, which this one keeps and updates too; -1: none

  int num_slices() const { return row_cuts.empty() ? 1 : static_cast<int>(row_cuts.size()) - 1; }
  /// The row of the tensors with which this replica's slice begins.
  std::int64_t first_kept_row() const {
    return row_cuts.empty() ? 0 : row_cuts[static_cast<std::size_t>(slice)];
  }
  /// The elements of the whole parameter that are in a slice, without padding.
  tensor::Region region_of(int number) const { return cut_region(region, row_cuts, number); }
  /// The rows of a slice of a tensor of the whole parameter, one after the other.
  tensor::Tensor rows_of(int number, const tensor::Tensor& x) const;
};

/// A bucket of a stage whose replicas divide training state, and the memory behind it. Whole
/// tensors that are divided lie in slots, which buckets have in turn.
struct StateBucket {
  Bucket range;
  /// Whether it is the head's use of a tied embedding whose other use the stage has too: that has a
  /// gradient of its own, or a place of its own to be gathered into.
  bool is_head_use = false;
  bool is_expert = false;     ///< whether its parameters are (Parameter::is_expert): all or none
  tensor::Tensor gradient{};  ///< whole, where backwards write it
  int gradient_slot = -1;     ///< -1: always whole
  tensor::Tensor kept_gradient{}, twin_gradient{};  ///< of this replica's slice, and the twin's
  tensor::Tensor kept_weights{};
  /// Whole weights as forwards and evaluations read them, and as backwards do. Both are one if
  /// weights stay whole, or stay gathered.
  tensor::Tensor forward_weights{}, backward_weights{};
  int forward_slot = -1, backward_slot = -1;  ///< -1: always whole
};

inline tensor::Tensor Parameter::rows_of(int number, const tensor::Tensor& x) const {
  if (row_cuts.empty()) return x;
  const auto i = static_cast<std::size_t>(number);
  const std::int64_t columns = x.num_elements() / x.shape[0];
  const auto skipped = static_cast<std::size_t>(row_cuts[i] * columns);
  return {x.as<std::byte>() + skipped * size_of(x.dtype),
          x.dtype,
          {(row_cuts[i + 1] - row_cuts[i]) * columns}};
}

}  // namespace troupe::stages
