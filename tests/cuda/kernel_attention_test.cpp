#include "tensor/cuda/attention/kernel_attention.h"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <string_view>

#include "tensor/cuda/kernels/attention/rotary_kernels.h"
#include "tensor/device/attention.h"
#include "tensor/errors/error.h"
#include "tests/emulated_grid/grid.h"
#include "tests/support/seed.h"
#include "tests/tensor/attention_run.h"

namespace troupe::tensor::cuda {

BOOST_AUTO_TEST_SUITE(kernel_attention_test)

namespace {

void check_shape(const AttentionShape& shape) {
  const std::uint64_t seed = test::fresh_seed();
  BOOST_TEST_CONTEXT("TROUPE_TEST_SEED=" << seed << " " << name_of(shape.dtype) << " S "
                                         << shape.seq_len << " H " << shape.heads << " K "
                                         << shape.kv_heads << " D " << shape.head_dim) {
    Host host(static_cast<int>(seed % 1000000));
    check_against_reference(run_attention(host, shape), dims_of(shape), tolerance_of(shape.dtype));
  }
}

constexpr DType kDTypes[] = {DType::f32, DType::bf16};

// Tiles of queries and keys end at 32 or 64, so that one row is alone in a tile, or missing.
BOOST_AUTO_TEST_CASE(agrees_with_the_reference_at_every_tile_edge) {
  for (const DType dtype : kDTypes) {
    for (const std::int64_t seq_len : {1, 15, 64, 65, 129}) {
      check_shape({.batch = 1,
                   .seq_len = seq_len,
                   .heads = 2,
                   .kv_heads = 1,
                   .head_dim = 16,
                   .dtype = dtype});
    }
  }
}

// 16-byte accesses, single elements, and padding to the width of a kernel: 32, 64, 128 or 256.
BOOST_AUTO_TEST_CASE(agrees_with_the_reference_for_every_width) {
  for (const DType dtype : kDTypes) {
    for (const std::int64_t head_dim : {2, 12, 18, 24, 34, 64, 72, 128, 136, 256}) {
      check_shape({.batch = 1,
                   .seq_len = 40,
                   .heads = 2,
                   .kv_heads = 1,
                   .head_dim = head_dim,
                   .dtype = dtype});
    }
    for (const std::int64_t head_dim : {7, 33}) {
      check_shape({.batch = 2,
                   .seq_len = 40,
                   .heads = 2,
                   .kv_heads = 2,
                   .head_dim = head_dim,
                   .dtype = dtype,
                   .rotary = std::nullopt});
    }
  }
}

BOOST_AUTO_TEST_CASE(several_long_tiles_of_wide_heads_agree_with_the_reference) {
  for (const DType dtype : kDTypes) {
    for (const std::int64_t head_dim : {128, 256}) {
      check_shape({.batch = 1,
                   .seq_len = 100,
                   .heads = 1,
                   .kv_heads = 1,
                   .head_dim = head_dim,
                   .dtype = dtype,
                   .causal = false});
    }
  }
}

// Rows of 16 bytes and others, several tiles of keys, and two kernels for keys and values.
BOOST_AUTO_TEST_CASE(every_order_of_blocks_and_threads_gives_the_same_bits) {
  for_each_setup([](DType dtype, Host& host) {
    for (const std::int64_t head_dim : {32, 10, 136}) {
      const AttentionShape shape{.batch = 1,
                                 .seq_len = 70,
                                 .heads = 2,
                                 .kv_heads = 1,
                                 .head_dim = head_dim,
                                 .dtype = dtype};
      const AttentionRun run = run_attention(host, shape, {.dropout = {0.2f, 77}});
      BOOST_TEST(std::isfinite(Host::read(run.dqkv)[0]));
    }
  });
}

BOOST_AUTO_TEST_CASE(angles_have_the_bits_that_float32_steps_give) {
  constexpr std::int64_t kPositions = 300, kHeadDim = 24, kHalf = kHeadDim / 2;
  for (const float scaling : {1.0f, 1.2f}) {
    RotaryFrequencies frequencies{.inverse = {}, .scaling = scaling};
    inverse_frequencies({.theta = 500000}, kPositions, std::span(frequencies.inverse, kHalf));
    std::vector<float> cos(kPositions * kHalf), sin(cos.size());
    emulated_grid::Grid grid(1);
    launch_rotation_tables(kPositions, kHeadDim, frequencies, cos.data(), sin.data(),
                           grid.stream());
    for (std::size_t i = 0; i < cos.size(); ++i) {
      const double angle = static_cast<float>(i / kHalf) * frequencies.inverse[i % kHalf];
      BOOST_REQUIRE_EQUAL(cos[i], static_cast<float>(std::cos(angle)) * scaling);
      BOOST_REQUIRE_EQUAL(sin[i], static_cast<float>(std::sin(angle)) * scaling);
    }
  }
}

/// What is rotated and rotated back is what it was; the columns of v are not touched.
void check_rotation_back(DType dtype, std::int64_t head_dim, bool rotary) {
  const AttentionShape shape{.batch = 2,
                             .seq_len = 9,
                             .heads = 4,
                             .kv_heads = 2,
                             .head_dim = head_dim,
                             .dtype = dtype,
                             .rotary = rotary ? std::optional(Rotary{}) : std::nullopt};
  const std::uint64_t seed = test::fresh_seed();
  BOOST_TEST_CONTEXT("TROUPE_TEST_SEED=" << seed << " " << name_of(dtype) << " D " << head_dim) {
    Host host(static_cast<int>(seed % 1000000));
    auto& stream = static_cast<KernelStream&>(host.stream());
    KernelAttention attention(shape, stream);
    host.give_scratch(attention);
    // Back from saved, [heads, S, W] of each sequence, to the places that qkv has.
    const std::int64_t S = shape.seq_len, H = shape.heads, K = shape.kv_heads, D = head_dim;
    const std::int64_t tokens = shape.batch * S, all = H + 2 * K;
    const std::int64_t W = attention.saved_elements() / (tokens * all);
    const Tensor qkv = host.normal(dtype, {tokens, all * D}, "qkv");
    const Tensor saved = host.output(dtype, {attention.saved_elements()});
    attention.save(stream, qkv, saved, {});
    const Values rotated = Host::read(saved);
    Values places(static_cast<std::size_t>(qkv.num_elements()));
    for (std::int64_t token = 0; token < tokens; ++token) {
      for (std::int64_t head = 0; head < all; ++head) {
        const std::int64_t b = token / S, s = token % S;
        std::int64_t row = b * H + head;
        if (head >= H) row = shape.batch * H + b * K + head - H;
        if (head >= H + K) row = shape.batch * (H + K) + b * K + head - H - K;
        std::copy_n(rotated.begin() + (row * S + s) * W, D,
                    places.begin() + (token * all + head) * D);
      }
    }
    const Tensor gradient = host.of(dtype, qkv.shape, places);
    attention.rotate_back(stream, gradient, {});
    check_near(gradient, Host::read(qkv), tolerance_of(dtype));
  }
}

BOOST_AUTO_TEST_CASE(gradients_are_rotated_back_in_place) {
  for (const DType dtype : kDTypes) {
    for (const std::int64_t head_dim : {16, 40, 12}) check_rotation_back(dtype, head_dim, true);
    check_rotation_back(dtype, 16, false);
  }
}

BOOST_AUTO_TEST_CASE(refuses_heads_that_are_wider_than_its_kernels) {
  Host host(1);
  const AttentionShape shape{.batch = 1, .seq_len = 4, .heads = 4, .kv_heads = 2, .head_dim = 258};
  BOOST_CHECK_EXCEPTION(host.device().make_attention(shape), Error, [](const Error& error) {
    return error.kind() == ErrorKind::manifest &&
           std::string_view(error.what()).find("258") != std::string_view::npos;
  });
  const CachedAttentionShape cached{
      .rows = 1, .sequences = 1, .capacity = 4, .heads = 4, .kv_heads = 2, .head_dim = 258};
  BOOST_CHECK_EXCEPTION(host.device().make_cached_attention(cached), Error,
                        [](const Error& error) { return error.kind() == ErrorKind::manifest; });
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::tensor::cuda
