#include "tensor/cuda/attention/cudnn_document_attention.h"

#include <algorithm>
#include <random>

#include "tensor/cuda/attention/attention_choice.h"
#include "tests/support/host_cudnn.h"
#include "tests/support/seed.h"
#include "tests/tensor/document_run.h"

// Documents by cuDNN, whose plans run on the host (tests/support/document_plan.h), with our kernels
// around them on the emulated grid.

namespace troupe::tensor::cuda {

BOOST_AUTO_TEST_SUITE(cudnn_document_attention_test)

namespace {

using test::HostCudnn;

constexpr AttentionShape kShape{.batch = 3,
                                .seq_len = 150,
                                .heads = 4,
                                .kv_heads = 2,
                                .head_dim = 16,
                                .dtype = DType::bf16,
                                .documents = true};

/// Attention on an emulated GPU with that cuDNN.
struct Served {
  explicit Served(const AttentionShape& of, int seed = 1) : shape(of), host(seed) {
    CudnnPlans plans(true, [](const std::string& what) { BOOST_ERROR(what); });
    auto& stream = static_cast<KernelStream&>(host.stream());
    attention = CudnnDocumentAttention::make(shape, plans, stream);
    BOOST_TEST_REQUIRE(attention != nullptr);
    host.give_scratch(*attention);
  }
  AttentionRun run(const Lengths& lengths, std::int64_t padding = 0,
                   const AttentionCall& call = {}) {
    return run_documents(host, *attention, shape, lengths, padding, call);
  }

  HostCudnn& cudnn = HostCudnn::reset();
  const AttentionShape shape;
  Host host;
  std::unique_ptr<CudnnDocumentAttention> attention;
};

/// Compares a call with the reference, and counts the runs of plans for a forward and a backward.
void check(const AttentionShape& shape, const Lengths& lengths, std::int64_t padding) {
  Served served(shape);
  check_documents(served.run(lengths, padding), shape, lengths);
  const auto documents = static_cast<std::int64_t>(lengths.size());
  BOOST_TEST(served.cudnn.runs == 2 * ((documents + shape.batch - 1) / shape.batch));
  BOOST_TEST(served.cudnn.plans == 2);
}

BOOST_AUTO_TEST_CASE(each_document_is_attended_to_alone_in_groups_of_the_batch) {
  check(kShape, {150}, 0);
  check(kShape, {1, 64, 5}, 3);
  check(kShape, {65, 63, 130, 2}, 190);
  check(kShape, {1, 150, 1, 1, 1, 1}, 0);
}

BOOST_AUTO_TEST_CASE(heads_of_other_sizes_without_order_or_rotation_agree_with_the_reference) {
  for (const auto& [heads, kv_heads, head_dim] : {std::tuple{3, 3, 64}, {8, 1, 8}}) {
    AttentionShape shape = kShape;
    shape.batch = 1;
    shape.heads = heads;
    shape.kv_heads = kv_heads;
    shape.head_dim = head_dim;
    check(shape, {70, 33}, 5);
    shape.causal = false;
    shape.rotary = {};
    check(shape, {80, 9}, 0);
  }
}

BOOST_AUTO_TEST_CASE(a_rotation_that_depends_on_the_length_is_that_of_each_document) {
  AttentionShape shape = kShape;
  shape.rotary =
      Rotary{.type = RotaryType::dynamic, .factor = 2, .original_max_position_embeddings = 16};
  check(shape, {7, 150, 16, 17, 90}, 2);
}

BOOST_AUTO_TEST_CASE(random_documents_agree_with_the_reference) {
  std::mt19937_64 random(test::fresh_seed());
  const auto up_to = [&](std::int64_t most) {
    return std::uniform_int_distribution<std::int64_t>(1, most)(random);
  };
  for (int round = 0; round < 6; ++round) {
    AttentionShape shape = kShape;
    shape.batch = up_to(4);
    std::int64_t room = shape.batch * shape.seq_len;
    Lengths lengths;
    for (std::int64_t n; (n = up_to(shape.seq_len)) <= room; room -= n) {
      if (static_cast<std::int64_t>(lengths.size()) == most_documents(shape)) break;
      lengths.push_back(n);
    }
    if (lengths.empty()) lengths.push_back(std::min(shape.seq_len, room));
    check(shape, lengths, 0);
  }
}

// Which of both computes a call follows from the call alone.
BOOST_AUTO_TEST_CASE(too_many_documents_and_dropout_are_left_to_our_kernels) {
  Lengths lengths(static_cast<std::size_t>(most_documents(kShape)), 20);
  check(kShape, lengths, 1);
  lengths.push_back(7);
  Served many(kShape);
  check_documents(many.run(lengths, 1), kShape, lengths);
  BOOST_TEST(many.cudnn.runs == 0);
  Served dropped(kShape);
  const AttentionCall call{.dropout = {.p = 0.3f, .key = 77}, .sequences = 9, .first_sequence = 2};
  const AttentionRun got = dropped.run({9, 150, 1}, 0, call);
  BOOST_TEST(dropped.cudnn.runs == 0);
  const AttentionRun expected = [&] {
    KernelAttention kernels(kShape, static_cast<KernelStream&>(dropped.host.stream()));
    dropped.host.give_scratch(kernels);
    return run_documents(dropped.host, kernels, kShape, {9, 150, 1}, 0, call);
  }();
  BOOST_TEST(same_bits(got.out, expected.out));
  BOOST_TEST(same_bits(got.dqkv, expected.dqkv));
}

BOOST_AUTO_TEST_CASE(what_is_computed_again_has_the_same_bits_in_every_order_of_threads) {
  const Lengths lengths = {5, 140, 1, 66};
  Served first(kShape, 1), second(kShape, 2);
  const AttentionRun one = first.run(lengths, 8), two = second.run(lengths, 8);
  BOOST_TEST(same_bits(one.out, two.out));
  BOOST_TEST(same_bits(one.dqkv, two.dqkv));
  const AttentionCall call{.documents = second.host.ids(starts_of(lengths))};
  const Tensor saved = second.host.output(DType::bf16, {second.attention->saved_elements()});
  const Tensor lse = second.host.output(DType::f32, two.lse.shape);
  const Tensor out = second.host.output(DType::bf16, two.out.shape);
  const Tensor again = second.host.output(DType::bf16, two.out.shape);
  second.attention->forward(second.host.stream(), two.qkv, saved, lse, out, call);
  second.attention->recompute(second.host.stream(), saved, lse, again, call);
  BOOST_TEST(same_bits(two.out, again));
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::tensor::cuda
