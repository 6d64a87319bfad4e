// Attention with what limits it: windows, soft caps and scales of scores, and rotations of a part
// of a head.

#include <random>

#include "tensor/errors/error.h"
#include "tests/support/seed.h"
#include "tests/tensor/document_run.h"

namespace troupe::tensor {

BOOST_AUTO_TEST_SUITE(attention_limits_test)

namespace {

AttentionShape shape_of(DType dtype) {
  return {.batch = 2, .seq_len = 150, .heads = 4, .kv_heads = 2, .head_dim = 16, .dtype = dtype};
}

void check_shape(Host& host, const AttentionShape& shape, double stddev = 1) {
  BOOST_TEST_CONTEXT("S " << shape.seq_len << " D " << shape.head_dim << ", window " << shape.window
                          << ", scale " << shape.scale << ", cap " << shape.cap) {
    check_against_reference(run_attention(host, shape, {}, stddev), dims_of(shape),
                            tolerance_of(shape.dtype));
  }
}

}  // namespace

BOOST_AUTO_TEST_CASE(windows_agree_with_the_reference_at_every_block_edge) {
  for_each_setup([](DType dtype, Host& host) {
    for (const std::int64_t window : {1, 2, 15, 16, 17, 63, 64, 65, 100, 149, 150, 151, 1000}) {
      AttentionShape shape = shape_of(dtype);
      shape.window = window;
      check_shape(host, shape);
    }
    for (const std::int64_t seq_len : {1, 5, 64, 65, 260}) {
      AttentionShape shape = shape_of(dtype);
      shape.seq_len = seq_len;
      shape.window = 9;
      check_shape(host, shape);
    }
  });
}

BOOST_AUTO_TEST_CASE(scores_are_scaled_and_capped_as_the_reference_does) {
  for_each_setup([](DType dtype, Host& host) {
    for (const auto& [scale, cap, window, head_dim] : {std::tuple{0.1f, 0.0f, 0, 16},
                                                       {0.0f, 2.0f, 0, 16},
                                                       {0.25f, 50.0f, 0, 6},
                                                       {0.3f, 1.5f, 20, 64},
                                                       {0.0f, 5.0f, 70, 96}}) {
      AttentionShape shape = shape_of(dtype);
      shape.scale = scale;
      shape.cap = cap;
      shape.window = window;
      shape.head_dim = head_dim;
      check_shape(host, shape, 1.5);
    }
  });
}

BOOST_AUTO_TEST_CASE(a_window_that_hides_nothing_has_the_bits_of_none) {
  for_each_setup([](DType dtype, Host& host) {
    AttentionShape shape = shape_of(dtype);
    const AttentionRun none = run_attention(host, shape);
    shape.window = shape.seq_len;
    const AttentionRun all = run_attention(host, shape);
    BOOST_TEST(same_bits(none.out, all.out));
    BOOST_TEST(same_bits(none.lse, all.lse));
    BOOST_TEST(same_bits(none.dqkv, all.dqkv));
  });
}

BOOST_AUTO_TEST_CASE(a_part_of_a_head_may_turn) {
  for_each_setup([](DType dtype, Host& host) {
    for (const auto& [head_dim, dim] :
         {std::pair{16, 2}, {16, 12}, {10, 6}, {32, 16}, {64, 48}, {128, 96}}) {
      AttentionShape shape = shape_of(dtype);
      shape.seq_len = 70;
      shape.head_dim = head_dim;
      shape.rotary->dim = dim;
      check_shape(host, shape);
    }
  });
}

BOOST_AUTO_TEST_CASE(a_window_is_within_a_document_and_longrope_by_its_length) {
  for_each_setup([](DType dtype, Host& host) {
    AttentionShape shape = shape_of(dtype);
    shape.documents = true;
    shape.window = 20;
    shape.cap = 3;
    shape.rotary = Rotary{.type = RotaryType::longrope,
                          .dim = 8,
                          .factor = 4,
                          .original_max_position_embeddings = 32,
                          .short_factor = {1, 1.5, 2, 2.5},
                          .long_factor = {4, 5, 6, 7}};
    for (const Lengths& lengths : {Lengths{7, 90, 16, 33, 32, 3}, Lengths{150, 64, 65}})
      check_documents(run_documents(host, shape, lengths, 2), shape, lengths);
  });
}

BOOST_AUTO_TEST_CASE(random_limits_agree_with_the_reference) {
  std::mt19937_64 random(test::fresh_seed());
  const auto below = [&](std::int64_t n) { return static_cast<std::int64_t>(random() % n); };
  for (int round = 0; round < 12; ++round) {
    Host host(1 + round % 3);
    AttentionShape shape = shape_of(DType::f32);
    shape.seq_len = 1 + below(200);
    shape.window = below(3) == 0 ? 0 : 1 + below(shape.seq_len);
    shape.cap = below(2) == 0 ? 0 : 1 + static_cast<float>(below(9));
    shape.scale = below(2) == 0 ? 0 : 0.5f;
    shape.rotary->dim = below(2) == 0 ? 0 : 2 + 2 * below(8);
    check_shape(host, shape);
  }
}

// A windowed forward drops what one of all keys drops.
BOOST_AUTO_TEST_CASE(probabilities_are_dropped_by_their_place_whatever_the_window) {
  for_each_setup([](DType dtype, Host& host) {
    AttentionShape shape = shape_of(dtype);
    shape.window = 40;
    const Random random(3, "dropout");
    const Dropout dropout{.p = 0.3f, .key = random.key()};
    const AttentionRun run = run_attention(host, shape, {.dropout = dropout});
    reference::AttentionDims dims = dims_of(shape);
    dims.factors.resize(dims.heads * dims.batch * dims.seq_len * dims.seq_len);
    for (std::size_t i = 0; i < dims.factors.size(); ++i)
      dims.factors[i] = random.word(i) < dropout.threshold() ? 0 : double{dropout.scale()};
    check_against_reference(run, dims, tolerance_of(dtype));
  });
}

BOOST_AUTO_TEST_CASE(gives_the_same_bits_twice_and_for_any_number_of_threads) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    AttentionShape shape = shape_of(dtype);
    shape.window = 33;
    shape.cap = 2;
    Host one(1), two(2);
    const AttentionRun first = run_attention(one, shape), second = run_attention(two, shape);
    BOOST_TEST(same_bits(first.out, second.out));
    BOOST_TEST(same_bits(first.dqkv, second.dqkv));
  }
}

BOOST_AUTO_TEST_CASE(what_a_query_does_not_see_has_no_say) {
  for_each_setup([](DType dtype, Host& host) {
    AttentionShape shape = shape_of(dtype);
    shape.batch = 1;
    shape.window = 10;
    shape.rotary = std::nullopt;
    const Tensor dout = host.normal(dtype, {150, 64}, "dout");
    const Tensor qkv = host.normal(dtype, {150, 128}, "qkv");
    const AttentionRun before = run_attention(host, shape, qkv, dout, {});
    Values values = Host::read(qkv);
    for (std::size_t i = 64; i < 128; ++i) values[100 * 128 + i] = 1e4;  // key and value 100
    const AttentionRun after =
        run_attention(host, shape, host.of(dtype, {150, 128}, values), dout, {});
    const Values a = Host::read(before.out), b = Host::read(after.out);
    for (std::size_t s = 0; s < 150; ++s) {
      const bool same = std::equal(&a[s * 64], &a[s * 64] + 64, &b[s * 64]);
      BOOST_TEST(same == (s < 100 || s >= 110), "position " << s);
    }
  });
}

BOOST_AUTO_TEST_CASE(refuses_limits_that_have_no_meaning) {
  Host host(1);
  const float infinity = std::numeric_limits<float>::infinity();
  const auto refused = [&](const char* word, const auto& spoil) {
    AttentionShape shape = shape_of(DType::f32);
    spoil(shape);
    BOOST_CHECK_EXCEPTION(host.device().make_attention(shape), Error, [&](const Error& error) {
      return error.kind() == ErrorKind::manifest &&
             std::string(error.what()).find(word) != std::string::npos;
    });
  };
  refused("window -1", [](AttentionShape& s) { s.window = -1; });
  refused("scale -2", [](AttentionShape& s) { s.scale = -2; });
  refused("soft cap -3", [](AttentionShape& s) { s.cap = -3; });
  refused("soft cap inf", [&](AttentionShape& s) { s.cap = infinity; });
  refused("causal", [](AttentionShape& s) { s.window = 4, s.causal = false; });
  refused("mask", [](AttentionShape& s) { s.cap = 4, s.mask = Mask::keys; });
  refused("mask", [](AttentionShape& s) { s.window = 4, s.mask = Mask::pairs; });
  refused("rope_dim = 3", [](AttentionShape& s) { s.rotary->dim = 3; });
  refused("rope_dim = 18", [](AttentionShape& s) { s.rotary->dim = 18; });
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::tensor
