#include "tensor/parallel/megatron/shard_slice.h"
#include "tensor/parallel/parallel_linear.h"
#include "tests/support/async_device.h"
#include "tests/tensor/shards.h"

// Two residual layers x + down(swiglu(gate_up(x))) with divided weights: they communicate what a
// decoder layer does, whose attention is such a pair of linear layers too.

namespace troupe::tensor {

BOOST_AUTO_TEST_SUITE(block_test)

namespace {

constexpr std::int64_t kT = 24, kC = 10, kF = 24;
constexpr std::size_t kLayers = 2;

struct Weights {
  Values gate_up, down;  // [2F, C] and [C, F], or their gradients
};

Weights weights_of(std::size_t layer) {
  const std::string name = std::to_string(layer);
  return {.gate_up = normal_values(DType::f32, 2 * kF * kC, "gate_up" + name),
          .down = normal_values(DType::f32, kC * kF, "down" + name)};
}

struct Result {
  Values y, dx;
  std::vector<Weights> gradients;
  std::map<std::string, Traffic> traffic;
};

Result expected_of(const Values& x, const Values& dy) {
  std::vector<Values> inputs, gate_ups, acts;
  Values y = x;
  for (std::size_t layer = 0; layer < kLayers; ++layer) {
    const Weights w = weights_of(layer);
    inputs.push_back(y);
    gate_ups.push_back(reference::linear(y, w.gate_up, kT, kC, 2 * kF));
    acts.push_back(reference::swiglu(gate_ups.back(), kT, kF));
    y = sum_of({y, reference::linear(acts.back(), w.down, kT, kF, kC)});
  }
  Result result{.y = y, .dx = dy, .gradients = std::vector<Weights>(kLayers), .traffic = {}};
  for (std::size_t layer = kLayers; layer-- > 0;) {
    const Weights w = weights_of(layer);
    const auto down = reference::linear_backward(result.dx, acts[layer], w.down, kT, kF, kC);
    const auto gate_up =
        reference::linear_backward(reference::swiglu_backward(gate_ups[layer], down.dx, kT, kF),
                                   inputs[layer], w.gate_up, kT, kC, 2 * kF);
    result.gradients[layer] = {.gate_up = gate_up.dw, .down = down.dw};
    result.dx = sum_of({result.dx, gate_up.dx});
  }
  return result;
}

/// One layer of one shard. Memory is the host's; products and ops are the device's.
class Layer {
 public:
  Layer(Host& host, Device& device, const TensorParallel& parallel, const Weights& weights)
      : device_(device),
        parallel_(parallel),
        up_(device, {.rows = kT, .in = kC, .out = 2 * kF}, parallel),
        down_(device, {.rows = kT, .in = kF, .out = kC}, parallel),
        up_packed_(host.device().allocate(up_.packed_bytes(), MemoryKind::host)),
        down_packed_(host.device().allocate(down_.packed_bytes(), MemoryKind::host)) {
    host.give_scratch(up_);
    host.give_scratch(down_);
    const std::int64_t part = kF / parallel.size;
    up_weight_ = host.zeros(DType::f32, {2 * part, kC});
    down_weight_ = host.zeros(DType::f32, {kC, part});
    copy_to_shard(host.stream(), tensor_of(host, DType::f32, {2 * kF, kC}, weights.gate_up),
                  joined_gate_up_slices(kF, parallel.size, parallel.shard), up_weight_);
    const ShardSlice columns = even_slice("inputs", 1, kF, parallel.size, parallel.shard);
    copy_to_shard(host.stream(), tensor_of(host, DType::f32, {kC, kF}, weights.down), {&columns, 1},
                  down_weight_);
    dup_ = host.zeros(DType::f32, up_weight_.shape);
    ddown_ = host.zeros(DType::f32, down_weight_.shape);
    gate_up_ = host.zeros(DType::f32, {kT, 2 * part});
    act_ = host.zeros(DType::f32, {kT, part});
    dact_ = host.zeros(DType::f32, {kT, part});
  }

  /// `full` [T, C] is memory that all layers use in turn, without sequence parallelism none.
  void forward(Stream& stream, const Tensor& x, const Tensor& full, const Tensor& y) {
    up_.pack(stream, up_weight_, up_packed_.data());
    down_.pack(stream, down_weight_, down_packed_.data());
    up_.forward(stream, x, full ? full : x, up_packed_.data(), {}, gate_up_);
    device_.ops().swiglu(stream, gate_up_, act_);
    down_.forward(stream, down_packed_.data(),
                  {.x = act_, .y_partial = full ? full : y, .y = y, .residual = x});
  }
  /// Computes dx from dy; `full` and `also_full` as in forward().
  void backward(Stream& stream, const Tensor& x, const Tensor& dy, const Tensor& full,
                const Tensor& also_full, const Tensor& dx) {
    down_.backward(stream, down_packed_.data(),
                   {.dy = dy, .dy_full = full ? full : dy, .x = act_, .dx = dact_, .dw = ddown_});
    device_.ops().swiglu_backward(stream, gate_up_, dact_, gate_up_);
    up_.backward(stream, up_packed_.data(),
                 {.dy = gate_up_,
                  .x = x,
                  .x_full = full ? full : x,
                  .dx_full = also_full ? also_full : dx,
                  .dx = dx,
                  .dw = dup_});
    device_.ops().accumulate(stream, dy, dx);
  }
  Weights gradients() const { return {.gate_up = Host::read(dup_), .down = Host::read(ddown_)}; }

 private:
  Device& device_;
  TensorParallel parallel_;
  ColumnParallelLinear up_;
  RowParallelLinear down_;
  Buffer up_packed_, down_packed_;
  Tensor up_weight_, down_weight_, dup_, ddown_, gate_up_, act_, dact_;
};

Result run(Host& host, Device& device, const TensorParallel& parallel, const Values& x,
           const Values& dy) {
  const auto stream = device.make_stream();
  const std::int64_t rows = parallel.splits_tokens() ? kT / parallel.size : kT;
  const auto first = static_cast<std::size_t>(parallel.splits_tokens() ? parallel.shard * rows : 0);
  const auto own = [&](const Values& values) {
    return tensor_of(host, DType::f32, {rows, kC},
                     rows_of(values, kC, first, static_cast<std::size_t>(rows)));
  };
  Tensor full, also_full;
  if (parallel.splits_tokens()) {
    full = host.zeros(DType::f32, {kT, kC});
    also_full = host.zeros(DType::f32, {kT, kC});
  }
  std::deque<Layer> layers;
  std::vector<Tensor> activations{own(x)}, gradients{own(dy)};
  for (std::size_t i = 0; i < kLayers; ++i) {
    layers.emplace_back(host, device, parallel, weights_of(i));
    activations.push_back(host.zeros(DType::f32, {rows, kC}));
    gradients.push_back(host.zeros(DType::f32, {rows, kC}));
  }
  for (std::size_t i = 0; i < kLayers; ++i)
    layers[i].forward(*stream, activations[i], full, activations[i + 1]);
  for (std::size_t i = 0; i < kLayers; ++i) {
    layers[kLayers - 1 - i].backward(*stream, activations[kLayers - 1 - i], gradients[i], full,
                                     also_full, gradients[i + 1]);
  }
  stream->synchronize();
  Result result{.y = Host::read(activations.back()),
                .dx = Host::read(gradients.back()),
                .gradients = {},
                .traffic = {}};
  for (const Layer& layer : layers) result.gradients.push_back(layer.gradients());
  return result;
}

std::vector<Result> run_all(int size, Moves moves, bool sequence_parallel, bool asynchronous,
                            const Values& x, const Values& dy) {
  return on_shards(size, moves, [&](Host& host, ThreadGroup& group) {
    const TensorParallelGroups groups{.forward = &group, .backward = &group};
    const TensorParallel parallel = shards_of(groups, sequence_parallel);
    test::AsyncDevice slow(static_cast<std::uint64_t>(group.member()));
    Device& device = asynchronous ? static_cast<Device&>(slow) : host.device();
    Result result = run(host, device, parallel, x, dy);
    result.traffic = group.traffic();
    return result;
  });
}

/// The whole gradient of gate_up from the shards' [gate_r | up_r].
Values whole_gate_up(const std::vector<Result>& shards, std::size_t layer) {
  std::vector<Values> gates, ups;
  for (const Result& shard : shards) {
    const Values& part = shard.gradients[layer].gate_up;
    const std::size_t rows = part.size() / kC / 2;
    gates.push_back(rows_of(part, kC, 0, rows));
    ups.push_back(rows_of(part, kC, rows, rows));
  }
  return stacked({stacked(gates), stacked(ups)});
}

Values whole_down(const std::vector<Result>& shards, std::size_t layer) {
  std::vector<Values> parts;
  for (const Result& shard : shards) parts.push_back(shard.gradients[layer].down);
  return joined(parts, kC);
}

const Values& input() {
  static const Values x = normal_values(DType::f32, kT * kC, "x");
  return x;
}
const Values& output_gradient() {
  static const Values dy = normal_values(DType::f32, kT * kC, "dy");
  return dy;
}

BOOST_AUTO_TEST_CASE(shards_compute_what_the_whole_block_computes) {
  const Result expected = expected_of(input(), output_gradient());
  for (const bool sequence_parallel : {false, true}) {
    for_each_group([&](int size, Moves moves) {
      const auto shards =
          run_all(size, moves, sequence_parallel, false, input(), output_gradient());
      const bool split = sequence_parallel && size > 1;
      const auto y = each(shards, &Result::y), dx = each(shards, &Result::dx);
      check_near(split ? stacked(y) : y.back(), expected.y, 1e-5);
      check_near(split ? stacked(dx) : dx.back(), expected.dx, 1e-5);
      for (std::size_t layer = 0; layer < kLayers; ++layer) {
        check_near(whole_gate_up(shards, layer), expected.gradients[layer].gate_up, 1e-5);
        check_near(whole_down(shards, layer), expected.gradients[layer].down, 1e-5);
      }
    });
  }
}

BOOST_AUTO_TEST_CASE(ordering_by_streams_is_enough) {
  for (const bool sequence_parallel : {false, true}) {
    for (const Moves moves : {Moves::at_call, Moves::at_wait}) {
      const auto run = [&](bool asynchronous) {
        return run_all(2, moves, sequence_parallel, asynchronous, input(), output_gradient());
      };
      const auto at_once = run(false), queued = run(true);
      for (std::size_t i = 0; i < 2; ++i) {
        BOOST_TEST(queued[i].y == at_once[i].y);
        BOOST_TEST(queued[i].dx == at_once[i].dx);
        BOOST_TEST(queued[i].gradients[0].gate_up == at_once[i].gradients[0].gate_up);
        BOOST_TEST(queued[i].gradients[1].down == at_once[i].gradients[1].down);
      }
    }
  }
}

// The four all-reduces of Megatron-LM, or what sequence parallelism puts in their place.
BOOST_AUTO_TEST_CASE(communicates_what_a_decoder_layer_does) {
  const std::int64_t bytes = kT * kC * 4;
  const auto traffic = [&](int size, bool sequence_parallel) {
    return run_all(size, Moves::at_call, sequence_parallel, false, input(), output_gradient())
        .front()
        .traffic;
  };
  BOOST_TEST((traffic(2, false) == std::map<std::string, Traffic>{{"all-reduce", {4, 4 * bytes}}}));
  BOOST_TEST(
      (traffic(2, true) == std::map<std::string, Traffic>{{"all-gather", {6, 3 * bytes}},
                                                          {"reduce-scatter", {4, 4 * bytes}}}));
  BOOST_TEST(traffic(1, true).empty());
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::tensor
