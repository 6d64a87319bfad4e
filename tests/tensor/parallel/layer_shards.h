#pragma once

#include <map>
#include <string>
#include <vector>

#include "tests/tensor/shards.h"

// What the tests of linear layers share that shards divide.

namespace troupe::tensor {

/// A whole layer in double precision, with the numbers that the shards are given.
struct WholeLayer {
  std::int64_t rows, in, out;
  Values x, w, b, residual, dy;
  Values y, dx, dw, db;
};

/// The values of a layer whose `b` and `residual` are given; each may be all zero.
inline WholeLayer whole_layer(DType dtype, WholeLayer l) {
  l.x = normal_values(dtype, l.rows * l.in, "x");
  l.w = normal_values(dtype, l.out * l.in, "w");
  l.dy = normal_values(dtype, l.rows * l.out, "dy");
  l.db.resize(static_cast<std::size_t>(l.out));
  l.y = reference::linear(l.x, l.w, l.rows, l.in, l.out);
  for (std::size_t i = 0; i < l.y.size(); ++i) {
    const std::size_t channel = i % l.db.size();
    l.y[i] += l.b[channel] + l.residual[i];
    l.db[channel] += l.dy[i];
  }
  const auto gradient = reference::linear_backward(l.dy, l.x, l.w, l.rows, l.in, l.out);
  l.dx = gradient.dx;
  l.dw = gradient.dw;
  return l;
}

struct LayerShard {
  Values y, dx, dw, db;
  std::map<std::string, Traffic> traffic;
};

/// Calls the backward twice, of which the second adds its weight gradients; a frozen weight has
/// none. `y` and `dx` are what the shard has of them afterwards.
template <typename Layer, typename Backward>
LayerShard after_two_backwards(Layer& layer, Host& host, const Buffer& packed, Backward backward,
                               const Tensor& y, const Tensor& dx) {
  for (const Gradient gradient : {Gradient::first, Gradient::added}) {
    backward.gradient = gradient;
    layer.backward(host.stream(), packed.data(), backward);
  }
  LayerShard shard{.y = Host::read(y), .dx = Host::read(dx)};
  if (backward.dw.data) {
    shard.dw = Host::read(backward.dw);
    shard.db = Host::read(backward.db);
  }
  return shard;
}

/// What `run(host, parallel)` returns on each shard, with what it has sent.
template <typename Run>
std::vector<LayerShard> run_layer_shards(int size, Moves moves, bool sequence_parallel,
                                         const Run& run) {
  return on_shards(size, moves, [&](Host& host, ThreadGroup& group) {
    const TensorParallelGroups groups{.forward = &group, .backward = &group};
    LayerShard shard = run(host, shards_of(groups, sequence_parallel));
    shard.traffic = group.traffic();
    return shard;
  });
}

inline Values twice(Values x) {
  for (double& value : x) value *= 2;
  return x;
}

}  // namespace troupe::tensor
