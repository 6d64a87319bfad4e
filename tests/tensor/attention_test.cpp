#include <limits>

#include "tensor/errors/error.h"
#include "tests/tensor/attention_run.h"
#include "tests/tensor/host.h"

namespace troupe::tensor {

BOOST_AUTO_TEST_SUITE(attention_test)

namespace {

void check_shape(Host& host, const AttentionShape& shape, double stddev = 1, double leniency = 1) {
  BOOST_TEST_CONTEXT("B " << shape.batch << " S " << shape.seq_len << " H " << shape.heads << " K "
                          << shape.kv_heads << " D " << shape.head_dim) {
    check_against_reference(run_attention(host, shape, {}, stddev), dims_of(shape),
                            leniency * tolerance_of(shape.dtype));
  }
}

BOOST_AUTO_TEST_CASE(agrees_with_the_reference_at_every_block_edge) {
  for_each_setup([](DType dtype, Host& host) {
    for (const std::int64_t seq_len : {1, 5, 63, 64, 65, 130}) {
      check_shape(host, {.batch = 2,
                         .seq_len = seq_len,
                         .heads = 4,
                         .kv_heads = 2,
                         .head_dim = 16,
                         .dtype = dtype});
    }
  });
}

BOOST_AUTO_TEST_CASE(agrees_with_the_reference_for_every_grouping_and_head_size) {
  for_each_setup([](DType dtype, Host& host) {
    for (const auto& [heads, kv_heads, head_dim] :
         {std::tuple{1, 1, 2}, {2, 2, 6}, {6, 2, 10}, {8, 1, 32}, {3, 3, 64}, {4, 2, 96}}) {
      check_shape(host, {.batch = 1,
                         .seq_len = 70,
                         .heads = heads,
                         .kv_heads = kv_heads,
                         .head_dim = head_dim,
                         .dtype = dtype,
                         .rotary = Rotary{.theta = 500000.0}});
    }
  });
}

BOOST_AUTO_TEST_CASE(agrees_with_the_reference_for_every_rotary_type) {
  for_each_setup([](DType dtype, Host& host) {
    for (const RotaryType type :
         {RotaryType::linear, RotaryType::dynamic, RotaryType::yarn, RotaryType::llama3}) {
      check_shape(host, {.batch = 2,
                         .seq_len = 70,
                         .heads = 4,
                         .kv_heads = 2,
                         .head_dim = 12,
                         .dtype = dtype,
                         .rotary = Rotary{
                             .type = type, .factor = 4, .original_max_position_embeddings = 32}});
    }
  });
}

BOOST_AUTO_TEST_CASE(agrees_with_the_reference_without_rotation) {
  for_each_setup([](DType dtype, Host& host) {
    for (const auto& [heads, kv_heads, head_dim] : {std::tuple{4, 4, 16}, {4, 2, 7}}) {
      check_shape(host, {.batch = 2,
                         .seq_len = 70,
                         .heads = heads,
                         .kv_heads = kv_heads,
                         .head_dim = head_dim,
                         .dtype = dtype,
                         .rotary = std::nullopt});
    }
  });
}

BOOST_AUTO_TEST_CASE(large_scores_do_not_overflow) {
  Host host(1);
  // Scores are in the hundreds, of which float32 keeps five digits after the point.
  check_shape(
      host,
      {.batch = 1, .seq_len = 65, .heads = 2, .kv_heads = 1, .head_dim = 16, .dtype = DType::f32},
      8, 10);
}

BOOST_AUTO_TEST_CASE(gives_the_same_bits_twice_and_for_any_number_of_threads) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const AttentionShape shape{
        .batch = 3, .seq_len = 100, .heads = 4, .kv_heads = 2, .head_dim = 32, .dtype = dtype};
    Host one(1);
    const AttentionRun first = run_attention(one, shape), second = run_attention(one, shape);
    Host two(2);
    const AttentionRun third = run_attention(two, shape);
    for (const AttentionRun* other : {&second, &third}) {
      BOOST_TEST(same_bits(first.out, other->out));
      BOOST_TEST(same_bits(first.lse, other->lse));
      BOOST_TEST(same_bits(first.dqkv, other->dqkv));
    }
  }
}

BOOST_AUTO_TEST_CASE(a_nan_reaches_every_later_position) {
  for_each_setup([](DType dtype, Host& host) {
    const AttentionShape shape{
        .batch = 1, .seq_len = 80, .heads = 2, .kv_heads = 1, .head_dim = 16, .dtype = dtype};
    const auto attention = host.device().make_attention(shape);
    host.give_scratch(*attention);
    const Tensor qkv = host.normal(dtype, {80, 64}, "qkv");
    Values values = Host::read(qkv);
    values[3 * 64 + 32] = std::numeric_limits<double>::quiet_NaN();  // in the key of position 3
    Host::write(values, qkv);
    const Tensor saved = host.zeros(dtype, {attention->saved_elements()});
    const Tensor lse = host.zeros(DType::f32, {2 * 80}), out = host.zeros(dtype, {80, 32});
    attention->forward(host.stream(), qkv, saved, lse, out);
    const Values y = Host::read(out), lse_values = Host::read(lse);
    for (std::size_t position = 3; position < 80; ++position) {
      BOOST_TEST(std::isnan(y[position * 32]));
      BOOST_TEST(std::isnan(lse_values[position]));
    }
  });
}

BOOST_AUTO_TEST_CASE(refuses_shapes_that_have_no_meaning) {
  Host host(1);
  const AttentionShape good{.batch = 1, .seq_len = 4, .heads = 4, .kv_heads = 2, .head_dim = 8};
  for (auto spoil :
       {+[](AttentionShape& s) { s.kv_heads = 3; }, +[](AttentionShape& s) { s.head_dim = 7; },
        +[](AttentionShape& s) { s.seq_len = 0; }, +[](AttentionShape& s) { s.batch = -1; },
        +[](AttentionShape& s) { s.dtype = DType::i32; },
        +[](AttentionShape& s) { s.rotary->theta = -1; }}) {
    AttentionShape shape = good;
    spoil(shape);
    BOOST_CHECK_EXCEPTION(host.device().make_attention(shape), Error,
                          [](const Error& error) { return error.kind() == ErrorKind::manifest; });
  }
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::tensor
