#include <limits>

#include "tests/support/seed.h"
#include "tests/tensor/attention_run.h"
#include "tests/tensor/host.h"

namespace troupe::tensor {

BOOST_AUTO_TEST_SUITE(attention_dropout_test)

namespace {

AttentionShape shape_of(DType dtype, std::int64_t seq_len) {
  return {
      .batch = 2, .seq_len = seq_len, .heads = 4, .kv_heads = 2, .head_dim = 16, .dtype = dtype};
}

/// What dropout multiplies each probability with, [H, B, S, S].
Values factors_of(const AttentionShape& shape, const Random& random, double p) {
  const std::int64_t of_head = shape.batch * shape.seq_len * shape.seq_len;
  const auto first = static_cast<std::uint64_t>(shape.first_head * of_head);
  Values factors(static_cast<std::size_t>(shape.heads * of_head));
  for (std::size_t i = 0; i < factors.size(); ++i) {
    factors[i] = random.word(first + i) >= std::floor(p * 0x1p32) ? 1 / (1 - p) : 0;
  }
  return factors;
}

BOOST_AUTO_TEST_CASE(dropout_agrees_with_the_reference) {
  const std::uint64_t seed = test::fresh_seed();
  const Random random(seed, "dropout");
  for_each_setup([&](DType dtype, Host& host) {
    for (const std::int64_t seq_len : {1, 5, 64, 67}) {
      for (const bool causal : {true, false}) {
        BOOST_TEST_CONTEXT("TROUPE_TEST_SEED=" << seed << " S " << seq_len
                                               << (causal ? ", causal" : "")) {
          AttentionShape shape = shape_of(dtype, seq_len);
          shape.causal = causal;
          shape.first_head = 3;
          const Dropout dropout{0.25f, random.key()};
          reference::AttentionDims dims = dims_of(shape);
          dims.factors = factors_of(shape, random, dropout.p);
          // Nearly all may be dropped, which leaves small numbers next to their errors.
          check_against_reference(run_attention(host, shape, {.dropout = dropout}), dims,
                                  2 * tolerance_of(dtype));
        }
      }
    }
  });
}

BOOST_AUTO_TEST_CASE(dropout_and_a_mask_go_together) {
  for_each_setup([](DType dtype, Host& host) {
    AttentionShape shape = shape_of(dtype, 70);
    shape.causal = false;
    shape.mask = Mask::keys;
    const Random random(5, "dropout");
    const Tensor mask = host.normal(DType::f32, {2, 70}, "mask");
    Values values = Host::read(mask);
    for (std::size_t i = 60; i < 140; ++i) values[i] = -std::numeric_limits<double>::infinity();
    Host::write(values, mask);
    reference::AttentionDims dims = dims_of(shape);
    dims.factors = factors_of(shape, random, 0.5);
    for (std::size_t row = 0; row < 2 * 70; ++row) {
      const double* added = &values[row / 70 * 70];
      dims.mask.insert(dims.mask.end(), added, added + 70);
    }
    const AttentionCall call{.mask = mask, .dropout = {0.5f, random.key()}};
    check_against_reference(run_attention(host, shape, call), dims, 2 * tolerance_of(dtype));
  });
}

BOOST_AUTO_TEST_CASE(what_is_recomputed_has_the_bits_of_the_forward) {
  for_each_setup([](DType dtype, Host& host) {
    AttentionShape shape = shape_of(dtype, 70);
    shape.mask = Mask::pairs;
    const auto attention = host.device().make_attention(shape);
    host.give_scratch(*attention);
    const AttentionCall call{.mask = host.normal(DType::f32, {70, 70}, "mask"),
                             .dropout = {0.25f, Random(5, "dropout").key()}};
    const std::int64_t rows = shape.batch * shape.seq_len, d = shape.head_dim;
    const Tensor qkv = host.normal(dtype, {rows, (shape.heads + 2 * shape.kv_heads) * d}, "qkv");
    const Tensor saved = host.zeros(dtype, {attention->saved_elements()});
    const Tensor lse = host.zeros(DType::f32, {rows * shape.heads}),
                 lse_again = host.zeros(DType::f32, lse.shape);
    const Tensor out = host.zeros(dtype, {rows, shape.heads * d}),
                 out_again = host.zeros(dtype, out.shape);
    attention->forward(host.stream(), qkv, saved, lse, out, call);
    const Values before = Host::read(saved);
    attention->recompute(host.stream(), saved, lse_again, out_again, call);
    BOOST_TEST(same_bits(lse_again, lse));
    BOOST_TEST(same_bits(out_again, out));
    BOOST_TEST(Host::read(saved) == before);
  });
}

BOOST_AUTO_TEST_CASE(dropout_of_nothing_changes_no_bit) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    Host host(1);
    const AttentionRun plain = run_attention(host, shape_of(dtype, 70));
    const AttentionRun zero = run_attention(host, shape_of(dtype, 70), {.dropout = {0, 77}});
    BOOST_TEST(same_bits(plain.out, zero.out));
    BOOST_TEST(same_bits(plain.dqkv, zero.dqkv));
  }
}

BOOST_AUTO_TEST_CASE(dropout_gives_the_same_bits_for_any_number_of_threads) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const AttentionCall call{.dropout = {0.1f, 77}};
    Host one(1);
    const AttentionRun expected = run_attention(one, shape_of(dtype, 100), call);
    for (const int threads : {2, 3}) {
      Host several(threads);
      const AttentionRun run = run_attention(several, shape_of(dtype, 100), call);
      BOOST_TEST(same_bits(run.out, expected.out));
      BOOST_TEST(same_bits(run.dqkv, expected.dqkv));
    }
  }
}

/// The sequences [first, first + count) of x[B*S, width].
Tensor sequences_of(Host& host, const Tensor& x, std::int64_t seq_len, std::int64_t first,
                    std::int64_t count) {
  const Values values = Host::read(x);
  const auto begin = values.begin() + static_cast<std::ptrdiff_t>(first * seq_len * x.shape[1]);
  const auto end = begin + static_cast<std::ptrdiff_t>(count * seq_len * x.shape[1]);
  const Tensor part = host.zeros(x.dtype, {count * seq_len, x.shape[1]});
  Host::write(Values(begin, end), part);
  return part;
}

// Microbatches divide the samples of a step in this way.
BOOST_AUTO_TEST_CASE(a_part_of_the_sequences_is_dropped_as_all_of_them_are) {
  for_each_setup([](DType dtype, Host& host) {
    AttentionShape shape = shape_of(dtype, 70);
    shape.first_head = 2;
    const AttentionCall whole{.dropout = {0.3f, 77}};
    const AttentionRun expected = run_attention(host, shape, whole);
    shape.batch = 1;
    for (const std::int64_t sequence : {0, 1}) {
      const AttentionCall call{
          .dropout = whole.dropout, .sequences = 2, .first_sequence = sequence};
      const auto own = [&](const Tensor& x) { return sequences_of(host, x, 70, sequence, 1); };
      const AttentionRun run =
          run_attention(host, shape, own(expected.qkv), own(expected.dout), call);
      BOOST_TEST(same_bits(run.out, own(expected.out)));
      BOOST_TEST(same_bits(run.dqkv, own(expected.dqkv)));
    }
  });
}

// A microbatch of several lanes has samples that do not follow each other in the step.
BOOST_AUTO_TEST_CASE(runs_of_sequences_are_dropped_by_their_places) {
  for_each_setup([](DType dtype, Host& host) {
    AttentionShape shape = shape_of(dtype, 70);
    const AttentionCall apart{
        .dropout = {0.3f, 77}, .sequences = 5, .first_sequence = 1, .run = 70, .gap = 140};
    const AttentionRun expected = run_attention(host, shape, apart);
    shape.batch = 1;
    for (const std::int64_t sequence : {0, 1}) {
      const AttentionCall call{
          .dropout = apart.dropout, .sequences = 5, .first_sequence = 1 + 3 * sequence};
      const auto own = [&](const Tensor& x) { return sequences_of(host, x, 70, sequence, 1); };
      const AttentionRun run =
          run_attention(host, shape, own(expected.qkv), own(expected.dout), call);
      BOOST_TEST(same_bits(run.out, own(expected.out)));
      BOOST_TEST(same_bits(run.dqkv, own(expected.dqkv)));
    }
  });
}

/// Some columns of a matrix: [first, first + count).
struct Columns {
  std::size_t first, count;
};
/// The pieces of x[rows, width] side by side.
Tensor columns_of(Host& host, const Tensor& x, const std::vector<Columns>& pieces) {
  const Values values = Host::read(x);
  const auto width = static_cast<std::size_t>(x.shape[1]);
  Values part;
  for (std::size_t row = 0; row < values.size(); row += width) {
    for (const auto [first, count] : pieces) {
      const auto begin = values.begin() + static_cast<std::ptrdiff_t>(row + first);
      part.insert(part.end(), begin, begin + static_cast<std::ptrdiff_t>(count));
    }
  }
  const auto rows = x.shape[0];
  const Tensor result = host.zeros(x.dtype, {rows, static_cast<std::int64_t>(part.size()) / rows});
  Host::write(part, result);
  return result;
}

// Tensor-parallel ranks divide the heads of a layer in this way.
BOOST_AUTO_TEST_CASE(a_part_of_the_heads_is_dropped_as_all_of_them_are) {
  for_each_setup([](DType dtype, Host& host) {
    const AttentionShape whole = shape_of(dtype, 70);
    const AttentionCall call{.dropout = {0.3f, 77}};
    const AttentionRun expected = run_attention(host, whole, call);
    for (const std::size_t part : {0u, 1u}) {  // two queries and what they share: heads of 16
      const std::vector<Columns> heads{{part * 32, 32}, {64 + part * 16, 16}, {96 + part * 16, 16}};
      const std::vector<Columns> outputs{{part * 32, 32}};
      AttentionShape shape = whole;
      shape.heads = 2;
      shape.kv_heads = 1;
      shape.first_head = static_cast<std::int64_t>(2 * part);
      const AttentionRun run = run_attention(host, shape, columns_of(host, expected.qkv, heads),
                                             columns_of(host, expected.dout, outputs), call);
      BOOST_TEST(same_bits(run.out, columns_of(host, expected.out, outputs)));
      BOOST_TEST(same_bits(run.dqkv, columns_of(host, expected.dqkv, heads)));
    }
  });
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::tensor
