#include <algorithm>
#include <random>

#include "tensor/cuda/attention/attention_choice.h"
#include "tests/support/seed.h"
#include "tests/tensor/document_run.h"

// Tests that documents by cuDNN's ragged form, where this GPU has one, are what our own kernels
// make of them. Those compute a call that has more documents than cuDNN is given.

namespace troupe::tensor {

BOOST_AUTO_TEST_SUITE(documents_test)

namespace {

constexpr AttentionShape kShape{.batch = 2,
                                .seq_len = 1024,
                                .heads = 8,
                                .kv_heads = 2,
                                .head_dim = 128,
                                .dtype = DType::bf16,
                                .documents = true};
/// More than cuDNN is given.
const auto kMany = static_cast<std::size_t>(cuda::most_documents(kShape)) + 1;

/// Documents that leave room for `kMany` more rows.
Lengths random_lengths(std::mt19937_64& random, std::int64_t longest) {
  std::int64_t room = kShape.batch * kShape.seq_len - static_cast<std::int64_t>(kMany);
  Lengths lengths;
  while (room > 0 && lengths.size() < kMany - 1) {
    const std::int64_t drawn = std::uniform_int_distribution<std::int64_t>(1, longest)(random);
    lengths.push_back(std::min(drawn, room));
    room -= lengths.back();
  }
  return lengths;
}

}  // namespace

BOOST_AUTO_TEST_CASE(documents_by_cudnn_are_those_of_our_kernels) {
  const std::uint64_t seed = test::fresh_seed();
  std::mt19937_64 random(seed);
  for (const std::int64_t longest : {kShape.seq_len, kShape.seq_len / 8}) {
    const Lengths few = random_lengths(random, longest);
    Lengths many = few;
    many.resize(kMany, 1);
    BOOST_TEST_CONTEXT("TROUPE_TEST_SEED=" << seed << ", " << few.size() << " documents of up to "
                                           << longest) {
      Host host(0);
      const AttentionRun got = run_documents(host, kShape, few, 3);
      const AttentionRun again = run_documents(host, kShape, few, 3);
      BOOST_TEST(same_bits(got.out, again.out));
      BOOST_TEST(same_bits(got.dqkv, again.dqkv));
      const AttentionRun ours = run_documents(host, kShape, many);
      const std::int64_t rows = starts_of(few).back();
      const double tolerance = tolerance_of(kShape.dtype);
      check_near(rows_of(got.out, 0, rows), rows_of(ours.out, 0, rows), tolerance);
      check_near(rows_of(got.dqkv, 0, rows), rows_of(ours.dqkv, 0, rows), 2 * tolerance);
      for (const Tensor* x : {&got.out, &got.dqkv})
        BOOST_TEST((rows_of(*x, rows, 3) == Values(static_cast<std::size_t>(3 * x->shape[1]), 0)));
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::tensor
