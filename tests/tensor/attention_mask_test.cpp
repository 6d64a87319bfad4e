#include <limits>

#include "tests/tensor/attention_run.h"
#include "tests/tensor/host.h"

namespace troupe::tensor {

BOOST_AUTO_TEST_SUITE(attention_mask_test)

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

AttentionShape shape_of(DType dtype, std::int64_t seq_len, Mask mask) {
  return {.batch = 2,
          .seq_len = seq_len,
          .heads = 4,
          .kv_heads = 2,
          .head_dim = 16,
          .dtype = dtype,
          .mask = mask};
}

/// What the reference adds for a mask tensor: its rows for each pair or each sequence.
Values expanded(const AttentionShape& shape, const Values& mask) {
  const auto batch = static_cast<std::size_t>(shape.batch);
  const auto s = static_cast<std::size_t>(shape.seq_len);
  Values pairs;
  for (std::size_t b = 0; b < batch; ++b) {
    for (std::size_t query = 0; query < s; ++query) {
      const double* row = &mask[(shape.mask == Mask::pairs ? query : b) * s];
      pairs.insert(pairs.end(), row, row + s);
    }
  }
  return pairs;
}

AttentionRun run_masked(Host& host, const AttentionShape& shape, const Values& mask) {
  const Tensor tensor = host.zeros(
      DType::f32, {shape.mask == Mask::pairs ? shape.seq_len : shape.batch, shape.seq_len});
  Host::write(mask, tensor);
  return run_attention(host, shape, {.mask = tensor});
}

void check_masked(Host& host, const AttentionShape& shape, const Values& mask) {
  reference::AttentionDims dims = dims_of(shape);
  dims.mask = expanded(shape, mask);
  check_against_reference(run_masked(host, shape, mask), dims, tolerance_of(shape.dtype));
}

/// A [rows, S] mask of normal numbers, of which every third hides its key.
Values scattered(std::int64_t rows, std::int64_t seq_len) {
  const Random random(7, "mask");
  Values mask(static_cast<std::size_t>(rows * seq_len));
  for (std::size_t i = 0; i < mask.size(); ++i) {
    mask[i] = i % 3 == 2 ? -kInfinity : static_cast<float>(random.normal(i));
  }
  return mask;
}

/// Key padding [2, S]: the first sequence ends early, the second begins late.
Values padding(std::int64_t seq_len, std::int64_t padded) {
  Values mask(static_cast<std::size_t>(2 * seq_len));
  for (std::int64_t i = seq_len - padded; i < seq_len + padded; ++i)
    mask[static_cast<std::size_t>(i)] = -kInfinity;
  return mask;
}

BOOST_AUTO_TEST_CASE(without_the_causal_rule_every_key_is_seen) {
  for_each_setup([](DType dtype, Host& host) {
    for (const std::int64_t seq_len : {1, 63, 65, 130}) {
      AttentionShape shape = shape_of(dtype, seq_len, Mask::none);
      shape.causal = false;
      check_against_reference(run_attention(host, shape), dims_of(shape), tolerance_of(dtype));
    }
  });
}

BOOST_AUTO_TEST_CASE(masks_agree_with_the_reference) {
  for_each_setup([](DType dtype, Host& host) {
    for (const std::int64_t seq_len : {5, 64, 70}) {
      for (const bool causal : {true, false}) {
        BOOST_TEST_CONTEXT("S " << seq_len << (causal ? ", causal" : "")) {
          AttentionShape shape = shape_of(dtype, seq_len, Mask::pairs);
          shape.causal = causal;
          check_masked(host, shape, scattered(seq_len, seq_len));
          shape.mask = Mask::keys;
          check_masked(host, shape, scattered(2, seq_len));
        }
      }
    }
  });
}

// In the second sequence the first queries see no key at all.
BOOST_AUTO_TEST_CASE(a_query_that_sees_no_key_gives_zeros_and_no_gradient) {
  for_each_setup([](DType dtype, Host& host) {
    const AttentionShape shape = shape_of(dtype, 70, Mask::keys);
    const Values mask = padding(70, 66);
    check_masked(host, shape, mask);
    const AttentionRun run = run_masked(host, shape, mask);
    const Values out = Host::read(run.out), dqkv = Host::read(run.dqkv);
    for (std::size_t token = 70; token < 136; ++token) {
      for (std::size_t c = 0; c < 4 * 16; ++c) BOOST_REQUIRE_EQUAL(out[token * 64 + c], 0);
      for (std::size_t c = 0; c < 8 * 16; ++c) BOOST_REQUIRE_EQUAL(dqkv[token * 128 + c], 0);
      BOOST_TEST(Host::read(run.lse)[static_cast<std::size_t>(4 * 70 + token - 70)] == -kInfinity);
    }
  });
}

BOOST_AUTO_TEST_CASE(all_keys_may_be_hidden) {
  for_each_setup([](DType dtype, Host& host) {
    for (const bool causal : {true, false}) {
      AttentionShape shape = shape_of(dtype, 70, Mask::pairs);
      shape.causal = causal;
      const AttentionRun run = run_masked(host, shape, Values(70 * 70, -kInfinity));
      BOOST_TEST((Host::read(run.out) == Values(2 * 70 * 64)));
      BOOST_TEST((Host::read(run.dqkv) == Values(2 * 70 * 128)));
    }
  });
}

// -inf for later keys is the causal rule, computed in another way.
BOOST_AUTO_TEST_CASE(a_causal_mask_gives_what_the_causal_rule_gives) {
  for_each_setup([](DType dtype, Host& host) {
    AttentionShape shape = shape_of(dtype, 100, Mask::pairs);
    shape.causal = false;
    Values mask(100 * 100);
    for (std::size_t i = 0; i < mask.size(); ++i) mask[i] = i % 100 > i / 100 ? -kInfinity : 0;
    const AttentionRun masked = run_masked(host, shape, mask);
    const AttentionRun causal = run_attention(host, shape_of(dtype, 100, Mask::none));
    check_near(masked.out, Host::read(causal.out), tolerance_of(dtype));
    check_near(masked.dqkv, Host::read(causal.dqkv), 2 * tolerance_of(dtype));
  });
}

BOOST_AUTO_TEST_CASE(masks_give_the_same_bits_for_any_number_of_threads) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    AttentionShape shape = shape_of(dtype, 100, Mask::keys);
    shape.causal = false;
    Host one(1);
    const AttentionRun expected = run_masked(one, shape, padding(100, 7));
    for (const int threads : {2, 3}) {
      Host several(threads);
      const AttentionRun run = run_masked(several, shape, padding(100, 7));
      BOOST_TEST(same_bits(run.out, expected.out));
      BOOST_TEST(same_bits(run.lse, expected.lse));
      BOOST_TEST(same_bits(run.dqkv, expected.dqkv));
    }
  }
}

BOOST_AUTO_TEST_CASE(a_nan_is_not_hidden_by_a_row_of_hidden_keys) {
  for_each_setup([](DType dtype, Host& host) {
    Values mask(70 * 70, -kInfinity);
    mask[3 * 70 + 1] = std::nan("");
    const AttentionRun run = run_masked(host, shape_of(dtype, 70, Mask::pairs), mask);
    BOOST_TEST(std::isnan(Host::read(run.lse)[3]));
    BOOST_TEST(std::isnan(Host::read(run.out)[3 * 64]));
    BOOST_TEST(Host::read(run.out)[4 * 64] == 0);
  });
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::tensor
