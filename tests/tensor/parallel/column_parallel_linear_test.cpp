#include "tensor/errors/error.h"
#include "tensor/parallel/parallel_linear.h"
#include "tensor/parallel/redistribution.h"
#include "tests/tensor/parallel/layer_shards.h"

namespace troupe::tensor {

BOOST_AUTO_TEST_SUITE(column_parallel_linear_test)

namespace {

constexpr std::int64_t kT = 24, kI = 10, kO = 36;

struct Setup {
  DType dtype = DType::f32;
  bool sequence_parallel = false;
  ColumnParallelOptions options{};
  bool frozen = false;
};

WholeLayer whole_of(DType dtype) {
  return whole_layer(dtype, {.rows = kT,
                             .in = kI,
                             .out = kO,
                             .b = normal_values(DType::f32, kO, "b"),
                             .residual = Values(kT * kO)});
}

/// One forward and two backwards on one shard; the second adds its weight gradients.
LayerShard run(Host& host, const TensorParallel& parallel, const Setup& setup,
               const WholeLayer& whole) {
  const auto n = static_cast<std::size_t>(parallel.size);
  const auto r = static_cast<std::size_t>(parallel.shard);
  ColumnParallelLinear layer(
      host.device(),
      {.rows = kT, .in = kI, .out = kO, .dtype = setup.dtype, .output_dtype = setup.dtype},
      parallel, setup.options);
  host.give_scratch(layer);
  const std::int64_t out = layer.shard_shape().out, part = static_cast<std::int64_t>(r) * out;
  const std::size_t tokens = parallel.splits_tokens() ? kT / n : kT;
  const auto own_rows = static_cast<std::int64_t>(tokens);
  const std::size_t first = parallel.splits_tokens() ? r * tokens : 0;
  const auto first_out = static_cast<std::size_t>(part), outs = static_cast<std::size_t>(out);

  const Tensor x =
      tensor_of(host, setup.dtype, {own_rows, kI}, rows_of(whole.x, kI, first, tokens));
  const Tensor w = tensor_of(host, DType::f32, {out, kI}, rows_of(whole.w, kI, first_out, outs));
  const Tensor b = tensor_of(host, DType::f32, {out}, rows_of(whole.b, 1, first_out, outs));
  const Tensor dy =
      tensor_of(host, setup.dtype, {kT, out}, columns_of(whole.dy, kO, first_out, outs));
  const Buffer packed = host.device().allocate(layer.packed_bytes(), MemoryKind::host);
  layer.pack(host.stream(), w, packed.data());

  const bool gathers = layer.gathered_elements() > 0;
  const Tensor x_full = gathers ? host.zeros(setup.dtype, {kT, kI}) : x;
  const Tensor y = host.zeros(setup.dtype, {kT, out});
  layer.forward(host.stream(), x, x_full, packed.data(), b, y);

  if (gathers) host.ops().fill_zero(host.stream(), x_full);  // another layer's input came between
  const Tensor dx = host.zeros(setup.dtype, {own_rows, kI});
  ColumnBackward backward{.dy = dy,
                          .x = x,
                          .x_full = x_full,
                          .dx_full = gathers ? host.zeros(setup.dtype, {kT, kI}) : dx,
                          .dx = dx,
                          .dw = host.zeros(DType::f32, {out, kI}),
                          .db = host.zeros(DType::f32, {out})};
  if (setup.frozen) backward.x = backward.x_full = backward.dw = backward.db = {};
  const bool whole_dx = setup.options.reduce_input_gradient;
  return after_two_backwards(layer, host, packed, backward, y, whole_dx ? dx : backward.dx_full);
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
        check_near(joined(each(shards, &LayerShard::y), kT), whole.y, tolerance);
        check_near(stacked(each(shards, &LayerShard::dw)), twice(whole.dw),
                   tolerance_of(DType::f32));
        check_near(stacked(each(shards, &LayerShard::db)), twice(whole.db),
                   tolerance_of(DType::f32));
        if (sequence_parallel) {
          check_near(stacked(each(shards, &LayerShard::dx)), whole.dx, tolerance);
        } else {
          for (const LayerShard& shard : shards) check_near(shard.dx, whole.dx, tolerance);
        }
      });
    }
  }
}

BOOST_AUTO_TEST_CASE(one_shard_needs_no_group) {
  const WholeLayer whole = whole_of(DType::f32);
  Host host(2);
  const LayerShard shard = run(host, {.sequence_parallel = true}, {}, whole);
  check_near(shard.y, whole.y, 2e-6);
  check_near(shard.dx, whole.dx, 2e-6);
  check_near(shard.dw, twice(whole.dw), 2e-6);
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
  const std::int64_t bytes = kT * kI * 4;
  const auto plain = run_all(4, Moves::at_call, {}, whole).front().traffic;
  BOOST_TEST((plain == std::map<std::string, Traffic>{{"all-reduce", {2, 2 * bytes}}}));
  // A gather in the forward and in each of the two backwards.
  const auto split = run_all(4, Moves::at_call, {.sequence_parallel = true}, whole).front().traffic;
  BOOST_TEST((split == std::map<std::string, Traffic>{{"all-gather", {3, 3 * bytes / 4}},
                                                      {"reduce-scatter", {2, 2 * bytes}}}));
  BOOST_TEST(
      run_all(1, Moves::at_call, {.sequence_parallel = true}, whole).front().traffic.empty());
}

BOOST_AUTO_TEST_CASE(a_frozen_weight_gathers_and_keeps_no_input) {
  const WholeLayer whole = whole_of(DType::f32);
  const Setup setup{.sequence_parallel = true, .frozen = true};
  const auto shards = run_all(2, Moves::at_wait, setup, whole);
  check_near(stacked(each(shards, &LayerShard::dx)), whole.dx, 2e-6);
  BOOST_TEST(shards.front().traffic.at("all-gather").calls == 1);  // the forward's
}

BOOST_AUTO_TEST_CASE(the_input_gradient_can_be_left_as_parts) {
  const WholeLayer whole = whole_of(DType::f32);
  for (const bool sequence_parallel : {false, true}) {
    const Setup setup{.sequence_parallel = sequence_parallel,
                      .options = {.reduce_input_gradient = false}};
    const auto shards = run_all(3, Moves::at_call, setup, whole);
    check_near(sum_of(each(shards, &LayerShard::dx)), whole.dx, 2e-6);
    BOOST_TEST(!shards.front().traffic.contains("all-reduce"));
    BOOST_TEST(!shards.front().traffic.contains("reduce-scatter"));
  }
}

BOOST_AUTO_TEST_CASE(the_output_can_be_gathered) {
  for_each_group([](int size, Moves moves) {
    const auto outputs = on_shards(size, moves, [](Host& host, ThreadGroup& group) {
      const TensorParallelGroups groups{.forward = &group, .backward = &group};
      const TensorParallel parallel = shards_of(groups);
      const ColumnParallelLinear layer(host.device(), {.rows = kT, .in = kI, .out = kO}, parallel);
      const std::int64_t part = layer.shard_shape().out;
      const Values y = normal_values(DType::f32, kT * kO, "y");
      const Tensor own =
          tensor_of(host, DType::f32, {kT, part},
                    columns_of(y, kO, static_cast<std::size_t>(group.member() * part),
                               static_cast<std::size_t>(part)));
      const Tensor scratch = host.zeros(DType::f32, {column_scratch_elements(group, kT * kO)});
      return Host::read(
          layer.gather_output(host.stream(), own, scratch, host.zeros(DType::f32, {kT, kO})));
    });
    for (const Values& y : outputs) BOOST_TEST(y == normal_values(DType::f32, kT * kO, "y"));
  });
}

// Megatron-LM gathers into one memory for the whole process, where the later gather wins.
BOOST_AUTO_TEST_CASE(two_gathers_under_way_keep_apart) {
  for (const Moves moves : {Moves::at_call, Moves::at_wait}) {
    const auto gathered = on_shards(3, moves, [](Host& host, ThreadGroup& group) {
      const TensorParallelGroups groups{.forward = &group, .backward = &group};
      ColumnParallelLinear layer(host.device(), {.rows = kT, .in = kI, .out = kO},
                                 shards_of(groups, true));
      const auto rows = std::int64_t{kT / 3};
      const Tensor a = host.normal(DType::f32, {rows, kI}, "a");
      const Tensor b = host.normal(DType::f32, {rows, kI}, "b");
      const Tensor a_full = host.zeros(DType::f32, {kT, kI});
      const Tensor b_full = host.zeros(DType::f32, {kT, kI});
      const auto first = layer.gather_input(host.stream(), a, a_full);
      const auto second = layer.gather_input(host.stream(), b, b_full);
      wait(second, host.stream());
      wait(first, host.stream());
      return std::pair(Host::read(a_full), Host::read(b_full));
    });
    const Values a = normal_values(DType::f32, kT / 3 * kI, "a");
    const Values b = normal_values(DType::f32, kT / 3 * kI, "b");
    for (const auto& [a_full, b_full] : gathered) {
      BOOST_TEST(a_full == stacked({a, a, a}));
      BOOST_TEST(b_full == stacked({b, b, b}));
    }
  }
}

/// The message of the Error{manifest} that a layer of `rows` tokens and `out` outputs raises.
std::string refusal(std::int64_t rows, std::int64_t out, bool sequence_parallel) {
  Host host(1);
  ThreadGroup group(std::make_shared<Meeting>(4), 1, Moves::at_call);
  const TensorParallelGroups groups{.forward = &group, .backward = &group};
  try {
    ColumnParallelLinear(host.device(), {.rows = rows, .in = 4, .out = out},
                         shards_of(groups, sequence_parallel));
  } catch (const Error& error) {
    BOOST_TEST((error.kind() == ErrorKind::manifest));
    return error.what();
  }
  return "";
}

BOOST_AUTO_TEST_CASE(refuses_what_the_shards_do_not_divide) {
  BOOST_TEST(refusal(8, 10, false) ==
             "10 outputs of a column-parallel layer cannot be divided evenly among 4 shards; the "
             "nearest numbers are 8 and 12");
  BOOST_TEST(refusal(8, 3, false) ==
             "3 outputs of a column-parallel layer cannot be divided evenly among 4 shards; the "
             "nearest number is 4");
  BOOST_TEST(refusal(10, 8, true) ==
             "10 tokens of a microbatch cannot be divided evenly among 4 shards; the nearest "
             "numbers are 8 and 12");
  BOOST_TEST(refusal(10, 8, false) == "");
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::tensor
