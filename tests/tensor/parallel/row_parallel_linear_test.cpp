#include "tensor/errors/error.h"
#include "tensor/parallel/division.h"
#include "tensor/parallel/parallel_linear.h"
#include "tests/tensor/parallel/layer_shards.h"

namespace troupe::tensor {

BOOST_AUTO_TEST_SUITE(row_parallel_linear_test)

namespace {

constexpr std::int64_t kT = 24, kI = 36, kO = 10;

struct Setup {
  DType dtype = DType::f32;
  bool sequence_parallel = false;
  bool bias = true;
  bool frozen = false;
};

WholeLayer whole_of(DType dtype, bool bias = true) {
  return whole_layer(dtype, {.rows = kT,
                             .in = kI,
                             .out = kO,
                             .b = bias ? normal_values(DType::f32, kO, "b") : Values(kO),
                             .residual = normal_values(dtype, kT * kO, "residual")});
}

/// One forward and two backwards on one shard; the second adds its weight gradients.
LayerShard run(Host& host, const TensorParallel& parallel, const Setup& setup,
               const WholeLayer& whole) {
  const auto n = static_cast<std::size_t>(parallel.size);
  const auto r = static_cast<std::size_t>(parallel.shard);
  const DType dtype = setup.dtype;
  RowParallelLinear layer(host.device(),
                          {.rows = kT, .in = kI, .out = kO, .dtype = dtype, .output_dtype = dtype},
                          parallel);
  host.give_scratch(layer);
  const std::int64_t in = layer.shard_shape().in;
  const auto ins = static_cast<std::size_t>(in), first_in = r * ins;
  const std::size_t tokens = parallel.splits_tokens() ? kT / n : kT;
  const auto own_rows = static_cast<std::int64_t>(tokens);
  const std::size_t first = parallel.splits_tokens() ? r * tokens : 0;
  const auto own = [&](const Values& y) {
    return tensor_of(host, dtype, {own_rows, kO}, rows_of(y, kO, first, tokens));
  };

  const Tensor x = tensor_of(host, dtype, {kT, in}, columns_of(whole.x, kI, first_in, ins));
  const Tensor w = tensor_of(host, DType::f32, {kO, in}, columns_of(whole.w, kI, first_in, ins));
  const Buffer packed = host.device().allocate(layer.packed_bytes(), MemoryKind::host);
  layer.pack(host.stream(), w, packed.data());

  const bool gathers = layer.gathered_elements() > 0;
  const Tensor y = host.zeros(dtype, {own_rows, kO});
  layer.forward(host.stream(), packed.data(),
                {.x = x,
                 .y_partial = gathers ? host.zeros(dtype, {kT, kO}) : y,
                 .y = y,
                 .bias = setup.bias ? tensor_of(host, DType::f32, {kO}, whole.b) : Tensor{},
                 .residual = own(whole.residual)});
  const Tensor dy = own(whole.dy);
  RowBackward backward{.dy = dy,
                       .dy_full = gathers ? host.zeros(dtype, {kT, kO}) : dy,
                       .x = x,
                       .dx = host.zeros(dtype, {kT, in}),
                       .dw = host.zeros(DType::f32, {kO, in}),
                       .db = host.zeros(DType::f32, {kO})};
  if (setup.frozen) backward.x = backward.dw = backward.db = {};
  return after_two_backwards(layer, host, packed, backward, y, backward.dx);
}

std::vector<LayerShard> run_all(int size, Moves moves, const Setup& setup,
                                const WholeLayer& whole) {
  return run_layer_shards(size, moves, setup.sequence_parallel,
                          [&](Host& host, const TensorParallel& parallel) {
                            return run(host, parallel, setup, whole);
                          });
}

BOOST_AUTO_TEST_CASE(shards_compute_what_the_whole_layer_computes) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const WholeLayer whole = whole_of(dtype);
    const double tolerance = tolerance_of(dtype);
    for (const bool sequence_parallel : {false, true}) {
      for_each_group([&](int size, Moves moves) {
        const auto shards =
            run_all(size, moves, {.dtype = dtype, .sequence_parallel = sequence_parallel}, whole);
        const bool split = sequence_parallel && size > 1;
        const auto y = each(shards, &LayerShard::y), db = each(shards, &LayerShard::db);
        check_near(split ? stacked(y) : y.back(), whole.y, tolerance);
        check_near(joined(each(shards, &LayerShard::dx), kT), whole.dx, tolerance);
        check_near(joined(each(shards, &LayerShard::dw), kO), twice(whole.dw),
                   tolerance_of(DType::f32));
        // With sequence parallelism every shard has the bias gradient of its own tokens.
        check_near(split ? sum_of(db) : db.back(), twice(whole.db), tolerance_of(DType::f32));
        if (!split) {
          for (const Values& same : y) BOOST_TEST(same == y.front());
        }
      });
    }
  }
}

BOOST_AUTO_TEST_CASE(a_layer_without_bias_adds_its_residual_after_the_sum) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const WholeLayer whole = whole_of(dtype, false);
    for (const bool sequence_parallel : {false, true}) {
      const Setup setup{.dtype = dtype, .sequence_parallel = sequence_parallel, .bias = false};
      const auto y = each(run_all(3, Moves::at_wait, setup, whole), &LayerShard::y);
      check_near(sequence_parallel ? stacked(y) : y.front(), whole.y, tolerance_of(dtype));
    }
  }
}

BOOST_AUTO_TEST_CASE(a_single_shard_adds_the_residual_in_the_product) {
  const WholeLayer whole = whole_of(DType::f32, false);
  Host host(2);
  RowParallelLinear layer(host.device(), {.rows = kT, .in = kI, .out = kO}, {});
  host.give_scratch(layer);
  const Buffer packed = host.device().allocate(layer.packed_bytes(), MemoryKind::host);
  layer.pack(host.stream(), tensor_of(host, DType::f32, {kO, kI}, whole.w), packed.data());
  const Tensor y = host.zeros(DType::f32, {kT, kO});
  layer.product(host.stream(), tensor_of(host, DType::f32, {kT, kI}, whole.x), packed.data(), y,
                tensor_of(host, DType::f32, {kT, kO}, whole.residual));
  BOOST_TEST(!layer.reduce_output(host.stream(), y, y));
  check_near(y, whole.y, 2e-6);
}

BOOST_AUTO_TEST_CASE(gives_the_same_bits_twice) {
  const WholeLayer whole = whole_of(DType::f32);
  for (const bool sequence_parallel : {false, true}) {
    const Setup setup{.sequence_parallel = sequence_parallel};
    const auto first = run_all(3, Moves::at_call, setup, whole);
    const auto second = run_all(3, Moves::at_wait, setup, whole);
    for (std::size_t i = 0; i < first.size(); ++i) {
      BOOST_TEST(first[i].y == second[i].y);
      BOOST_TEST(first[i].dx == second[i].dx);
      BOOST_TEST(first[i].dw == second[i].dw);
      BOOST_TEST(first[i].db == second[i].db);
    }
  }
}

BOOST_AUTO_TEST_CASE(communicates_no_more_than_the_analysis_says) {
  const WholeLayer whole = whole_of(DType::f32);
  const std::int64_t bytes = kT * kO * 4;
  const auto plain = run_all(4, Moves::at_call, {}, whole).front().traffic;
  BOOST_TEST((plain == std::map<std::string, Traffic>{{"all-reduce", {1, bytes}}}));
  // A reduction in the forward, and a gather in each of the two backwards.
  const auto split = run_all(4, Moves::at_call, {.sequence_parallel = true}, whole).front().traffic;
  BOOST_TEST((split == std::map<std::string, Traffic>{{"all-gather", {2, 2 * bytes / 4}},
                                                      {"reduce-scatter", {1, bytes}}}));
  BOOST_TEST(
      run_all(1, Moves::at_call, {.sequence_parallel = true}, whole).front().traffic.empty());
}

BOOST_AUTO_TEST_CASE(a_frozen_weight_needs_no_input) {
  const WholeLayer whole = whole_of(DType::f32);
  const auto shards =
      run_all(2, Moves::at_wait, {.sequence_parallel = true, .frozen = true}, whole);
  check_near(joined(each(shards, &LayerShard::dx), kT), whole.dx, 2e-6);
}

BOOST_AUTO_TEST_CASE(an_input_that_is_not_divided_can_be) {
  const Values input = normal_values(DType::f32, kT * kI, "input");
  for_each_group([&](int size, Moves moves) {
    const auto parts = on_shards(size, moves, [&](Host& host, ThreadGroup& group) {
      const TensorParallelGroups groups{.forward = &group, .backward = &group};
      const RowParallelLinear layer(host.device(), {.rows = kT, .in = kI, .out = kO},
                                    shards_of(groups));
      const Tensor x = host.zeros(DType::f32, {kT, layer.shard_shape().in});
      return Host::read(
          layer.scatter_input(host.stream(), tensor_of(host, DType::f32, {kT, kI}, input), x));
    });
    BOOST_TEST(joined(parts, kT) == input);
  });
}

BOOST_AUTO_TEST_CASE(a_sum_can_run_under_the_product_of_the_next_tokens) {
  const WholeLayer whole = whole_of(DType::f32, false);
  for_each_group([&](int size, Moves moves) {
    const auto outputs = on_shards(size, moves, [&](Host& host, ThreadGroup& group) {
      const TensorParallelGroups groups{.forward = &group, .backward = &group};
      RowParallelLinear layer(host.device(), {.rows = kT / 2, .in = kI, .out = kO},
                              shards_of(groups));
      host.give_scratch(layer);
      const std::int64_t in = layer.shard_shape().in;
      const auto own = [&](const Values& values, std::int64_t rows) {
        return tensor_of(host, DType::f32, {rows, in},
                         columns_of(values, kI, static_cast<std::size_t>(group.member() * in),
                                    static_cast<std::size_t>(in)));
      };
      const Buffer packed = host.device().allocate(layer.packed_bytes(), MemoryKind::host);
      layer.pack(host.stream(), own(whole.w, kO), packed.data());
      const Tensor x = own(whole.x, kT), y = host.zeros(DType::f32, {kT, kO});
      std::vector<std::unique_ptr<Work>> sums;
      for (const std::int64_t first : {std::int64_t{0}, kT / 2}) {
        const Tensor part = row_view(y, first, kT / 2);
        layer.product(host.stream(), row_view(x, first, kT / 2), packed.data(), part);
        sums.push_back(layer.reduce_output(host.stream(), part, part));
      }
      for (const auto& sum : sums) wait(sum, host.stream());
      layer.add_bias_and_residual(host.stream(), {},
                                  tensor_of(host, DType::f32, {kT, kO}, whole.residual), y);
      return Host::read(y);
    });
    for (const Values& y : outputs) check_near(y, whole.y, 2e-6);
  });
}

/// The message of the Error{manifest} that a layer of `rows` tokens and `in` inputs raises.
std::string refusal(std::int64_t rows, std::int64_t in, bool sequence_parallel) {
  Host host(1);
  ThreadGroup group(std::make_shared<Meeting>(4), 1, Moves::at_call);
  const TensorParallelGroups groups{.forward = &group, .backward = &group};
  try {
    RowParallelLinear(host.device(), {.rows = rows, .in = in, .out = 4},
                      shards_of(groups, sequence_parallel));
  } catch (const Error& error) {
    BOOST_TEST((error.kind() == ErrorKind::manifest));
    return error.what();
  }
  return "";
}

BOOST_AUTO_TEST_CASE(refuses_what_the_shards_do_not_divide) {
  BOOST_TEST(refusal(8, 10, false) ==
             "10 inputs of a row-parallel layer cannot be divided evenly among 4 shards; the "
             "nearest numbers are 8 and 12");
  BOOST_TEST(refusal(10, 8, true) ==
             "10 tokens of a microbatch cannot be divided evenly among 4 shards; the nearest "
             "numbers are 8 and 12");
  BOOST_TEST(refusal(10, 8, false) == "");
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::tensor
