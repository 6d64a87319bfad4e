#include <numeric>

#include "tests/support/seed.h"
#include "tests/tensor/document_run.h"

namespace troupe::tensor {

BOOST_AUTO_TEST_SUITE(document_attention_test)

namespace {

AttentionShape shape_of(DType dtype) {
  return {.batch = 4,
          .seq_len = 150,
          .heads = 4,
          .kv_heads = 2,
          .head_dim = 16,
          .dtype = dtype,
          .documents = true};
}

BOOST_AUTO_TEST_CASE(each_document_is_attended_to_alone) {
  for_each_setup([](DType dtype, Host& host) {
    const Lengths lengths = {1, 64, 5, 65, 63, 130, 2, 128, 1};
    check_documents(run_documents(host, shape_of(dtype), lengths, 3), shape_of(dtype), lengths);
  });
}

BOOST_AUTO_TEST_CASE(heads_of_every_size_and_grouping_agree_with_the_reference) {
  for_each_setup([](DType dtype, Host& host) {
    for (const auto& [heads, kv_heads, head_dim] :
         {std::tuple{1, 1, 2}, {6, 2, 10}, {8, 1, 32}, {3, 3, 64}, {4, 2, 96}}) {
      AttentionShape shape = shape_of(dtype);
      shape.heads = heads;
      shape.kv_heads = kv_heads;
      shape.head_dim = head_dim;
      check_documents(run_documents(host, shape, {7, 70, 33}), shape, {7, 70, 33});
    }
  });
}

BOOST_AUTO_TEST_CASE(heads_need_not_be_rotated_nor_queries_be_blind_for_later_keys) {
  for_each_setup([](DType dtype, Host& host) {
    AttentionShape shape = shape_of(dtype);
    shape.rotary = {};
    shape.causal = false;
    check_documents(run_documents(host, shape, {9, 80, 64}, 1), shape, {9, 80, 64});
  });
}

BOOST_AUTO_TEST_CASE(a_rotation_that_depends_on_the_length_is_that_of_each_document) {
  for_each_setup([](DType dtype, Host& host) {
    AttentionShape shape = shape_of(dtype);
    shape.rotary =
        Rotary{.type = RotaryType::dynamic, .factor = 2, .original_max_position_embeddings = 16};
    const Lengths lengths = {7, 150, 16, 17, 90, 3};
    check_documents(run_documents(host, shape, lengths, 2), shape, lengths);
  });
}

BOOST_AUTO_TEST_CASE(random_documents_agree_with_the_reference) {
  std::mt19937_64 random(test::fresh_seed());
  const auto up_to = [&](std::int64_t most) {
    return std::uniform_int_distribution<std::int64_t>(1, most)(random);
  };
  for (int round = 0; round < 8; ++round) {
    Lengths lengths;
    for (std::int64_t room = 600, n; (n = up_to(round % 2 ? 150 : 5)) <= room; room -= n)
      lengths.push_back(n);
    Host host(1 + round % 3);
    check_documents(run_documents(host, shape_of(DType::f32), lengths), shape_of(DType::f32),
                    lengths);
  }
}

// Documents that begin where sequences of the same shape do drop the same probabilities.
BOOST_AUTO_TEST_CASE(probabilities_are_dropped_by_their_row_and_their_place_in_the_document) {
  for_each_setup([](DType dtype, Host& host) {
    AttentionShape shape = shape_of(dtype), dense = shape;
    dense.documents = false;
    for (const std::int64_t gap : {0, 1}) {
      const AttentionCall call{.dropout = {.p = 0.3f, .key = 77},
                               .sequences = 9,
                               .first_sequence = 2,
                               .run = gap > 0 ? 300 : 0,
                               .gap = 150 * gap};
      const AttentionRun expected = run_attention(host, dense, call);
      AttentionCall with_documents = call;
      with_documents.documents = host.ids(starts_of({150, 150, 150, 150}));
      const AttentionRun got = run_attention(host, shape, with_documents);
      check_near(got.out, Host::read(expected.out), tolerance_of(dtype));
      check_near(got.dqkv, Host::read(expected.dqkv), 2 * tolerance_of(dtype));
    }
  });
}

BOOST_AUTO_TEST_CASE(what_is_computed_again_has_the_same_bits_for_any_number_of_threads) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const Lengths lengths = {5, 140, 1, 66, 20};
    Host one(1), three(3);
    const AttentionRun first = run_documents(one, shape_of(dtype), lengths, 8);
    const AttentionRun second = run_documents(three, shape_of(dtype), lengths, 8);
    BOOST_TEST(same_bits(first.out, second.out));
    BOOST_TEST(same_bits(first.dqkv, second.dqkv));

    const auto attention = three.device().make_attention(shape_of(dtype));
    three.give_scratch(*attention);
    const AttentionCall call{.documents = three.ids(starts_of(lengths))};
    const Tensor saved = three.output(dtype, {attention->saved_elements()});
    const Tensor lse = three.output(DType::f32, first.lse.shape);
    const Tensor out = three.output(dtype, first.out.shape);
    attention->forward(three.stream(), second.qkv, saved, lse, out, call);
    const Tensor again = three.output(dtype, first.out.shape);
    attention->recompute(three.stream(), saved, lse, again, call);
    BOOST_TEST(same_bits(first.out, again));
  }
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::tensor
