#pragma once

#include <cstdint>
#include <vector>

#include "tensor/values/tensor.h"

// The tensors of a feed-forward sublayer with experts, beside those of SublayerActivations.
// Letters: those of LayerShape, E experts, K of them for each token, m the shard's width of one. R
// rows are what experts compute: T K, those of a token once for each of its experts. If replicas
// share experts out, rows travel to where their expert is: a replica's experts then compute X of
// all replicas, at most, and R in `inner` and `hidden` stands for X.

namespace troupe::stages {

/// What a router chose for the tokens of a microbatch, and the order in which the experts have
/// their rows. A forward keeps all of it whatever is recomputed, because a choice that is made
/// again could be another one.
struct RouterChoice {
  tensor::Tensor probs;        // [T, E]      f32  I
  tensor::Tensor lse;          // [T]         f32  I    only with a z-loss
  tensor::Tensor chosen;       // [T, K]      i32  I    ascending
  tensor::Tensor weights;      // [T, K]      f32  I
  tensor::Tensor offsets;      // [E + 1]     i32  I W  first row of each expert
  tensor::Tensor row_of;       // [T, K]      i32  I
  tensor::Tensor token_of;     // [R]         i32  I W
  tensor::Tensor row_weights;  // [R]         f32  I
  tensor::Tensor load;         // [2 E + 3]   f32  I    Ops::router_load()
  /// Which tokens of the microbatch are no padding, and how many; empty: all.
  tensor::Tensor counted;  // [T]  i32
  std::int64_t num_counted = 1;
  std::int64_t num_own = 1;  ///< how many of those that the shard routes
  int layer = 0;             ///< of the model, for errors
};

/// How many rows travel for one microbatch in one layer, in the host's memory, with a number for
/// each member of the group; `wide` counts elements of rows of C columns.
struct RowCounts {
  std::vector<std::int64_t> sent, received, wide_sent, wide_received;
  std::vector<std::int32_t> by_expert;  ///< [ep, E / ep] received of each member for each expert
  std::int64_t rows = 0;                ///< received
};

/// What a replica's experts have received, kept whatever is recomputed, because it would have to
/// travel again. The order of rows is that of experts, then of members, then of the member's rows.
struct ReceivedRows {
  tensor::Tensor offsets_of_all;  // [ep, E + 1]  i32         RouterChoice::offsets of all members
  tensor::Tensor offsets;         // [E / ep + 1]  i32  I W
  tensor::Tensor row_of;          // [X, 1]        i32  I     where a row is, by when it has come
  tensor::Tensor came_as;         // [X]           i32  I     the inverse
  tensor::Tensor weights;         // [X]           f32  I
  tensor::Tensor rows;            // [X, C]        act  W
  RowCounts* counts = nullptr;    // of the slot
};

/// Memory that layers share, one after the other: forwards one, backwards another.
struct RoutedScratch {
  tensor::Tensor rows;     // [R, C]  act  what the experts read, or its gradient
  tensor::Tensor results;  // [R, C]  act  what they give, or its gradient
  tensor::Tensor wide;     // [T, C]  f32  what the router reads, or its gradient, if act is not f32
  tensor::Tensor logits;   // [T, E]  f32
  // If rows travel: in the order in which they come and go, and in that of experts.
  tensor::Tensor travelled;  // [X, C]  act
  tensor::Tensor computed;   // [X, C]  act
  tensor::Tensor numbers;    // [X]     f32
  tensor::Tensor experts;    // [X, 1]  i32
  tensor::Tensor zeros;      // [E]     f32  if shards route tokens of their own
  // Of backwards alone.
  tensor::Tensor dhidden;       // [R, m]  act
  tensor::Tensor drow_weights;  // [R]     f32
  tensor::Tensor dweights;      // [T, K]  f32
  tensor::Tensor balance;       // [E]     f32
};

/// What a forward keeps for one microbatch.
struct RoutedActivations {
  RouterChoice choice;
  ReceivedRows received;  // empty unless replicas share experts out
  tensor::Tensor inner;   // [R, 2m]  act  I W  gate and up; in I replaced by its gradient
  tensor::Tensor hidden;  // [R, m]   act  I W  after the activation, times the row's weight
  /// The stage's sums of `load` over the microbatches of a step; empty: the pass adds nothing.
  tensor::Tensor load_sum;  // [2 E + 3]  f32
};

/// A vector as a matrix of one column, and a matrix of one column as a vector.
inline tensor::Tensor column(const tensor::Tensor& x) {
  return {x.data, x.dtype, {x.num_elements(), 1}};
}
inline tensor::Tensor flat(const tensor::Tensor& x) {
  return {x.data, x.dtype, {x.num_elements()}};
}

}  // namespace troupe::stages
