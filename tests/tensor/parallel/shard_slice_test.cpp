#include "tensor/parallel/megatron/shard_slice.h"

#include "tensor/errors/error.h"
#include "tests/support/seed.h"
#include "tests/tensor/shards.h"

namespace troupe::tensor {

BOOST_AUTO_TEST_SUITE(shard_slice_test)

namespace {

bool is_manifest(const Error& error) {
  return error.kind() == ErrorKind::manifest;
}

BOOST_AUTO_TEST_CASE(a_shard_holds_whole_heads) {
  const HeadCounts counts{.heads = 8, .kv_heads = 4, .head_dim = 16};
  const auto slices = qkv_slices(counts, 2, 1);
  BOOST_TEST((slices[0] == ShardSlice{.begin = 64, .size = 64}));
  BOOST_TEST((slices[1] == ShardSlice{.begin = 32, .size = 32}));
  BOOST_TEST((slices[2] == ShardSlice{.begin = 32, .size = 32}));
  const auto joined = joined_qkv_slices(counts, 2, 1);
  BOOST_TEST((joined[0] == ShardSlice{.begin = 64, .size = 64}));
  BOOST_TEST((joined[1] == ShardSlice{.begin = 128 + 32, .size = 32}));
  BOOST_TEST((joined[2] == ShardSlice{.begin = 128 + 64 + 32, .size = 32}));
}

BOOST_AUTO_TEST_CASE(fewer_key_value_heads_than_shards_are_on_several) {
  const HeadCounts counts{.heads = 8, .kv_heads = 2, .head_dim = 4};
  BOOST_TEST(kv_copies(2, 4) == 2);
  BOOST_TEST(kv_copies(4, 4) == 1);
  BOOST_TEST(kv_copies(4, 2) == 1);
  for (int shard = 0; shard < 4; ++shard) {
    const auto slices = qkv_slices(counts, 4, shard);
    BOOST_TEST((slices[0] == ShardSlice{.begin = 8 * shard, .size = 8}));
    BOOST_TEST((slices[1] == ShardSlice{.begin = shard / 2 * 4, .size = 4}));
  }
}

// Head h uses key-value head h / (H / K): a shard that lacks it would need its neighbour's.
BOOST_AUTO_TEST_CASE(every_query_head_is_with_the_key_value_head_it_uses) {
  for (const std::int64_t kv_heads : {1, 2, 3, 4, 6, 12}) {
    for (const int shards : {1, 2, 3, 4, 6, 12}) {
      if (kv_heads % shards != 0 && shards % kv_heads != 0) continue;
      for (int shard = 0; shard < shards; ++shard) {
        const auto [q, k, v] = qkv_slices({12, kv_heads, 1}, shards, shard);
        bool has_all = q.size == 12 / shards && k == v;
        for (std::int64_t head = q.begin; head < q.begin + q.size; ++head) {
          const std::int64_t used = head / (12 / kv_heads);
          has_all = has_all && used >= k.begin && used < k.begin + k.size;
        }
        BOOST_TEST(has_all, kv_heads << " key-value heads, shard " << shard << " of " << shards);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(refuses_heads_and_channels_that_are_not_divided) {
  BOOST_CHECK_EXCEPTION(qkv_slices({6, 6, 4}, 4, 0), Error, is_manifest);
  BOOST_CHECK_EXCEPTION(qkv_slices({12, 3, 4}, 4, 0), Error, is_manifest);
  BOOST_CHECK_EXCEPTION(joined_gate_up_slices(10, 4, 0), Error, is_manifest);
  BOOST_CHECK_EXCEPTION(even_slice("outputs", 1, 10, 4, 0), Error, is_manifest);
}

/// Divides a random matrix into parts, puts the parts together again, and compares.
template <typename Slices>
void check_lossless(Shape shape, int shards, int dim, const Slices& slices_of) {
  Host host(1);
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const Tensor whole = host.normal(dtype, shape, "whole");
    const Tensor again = host.zeros(dtype, shape);
    for (int shard = 0; shard < shards; ++shard) {
      const auto slices = slices_of(shard);
      std::int64_t size = 0;
      for (const ShardSlice& slice : slices) size += slice.size;
      const Tensor part =
          host.zeros(dtype, dim == 0 ? Shape{size, shape[1]} : Shape{shape[0], size});
      copy_to_shard(host.stream(), whole, slices, part);
      copy_from_shard(host.stream(), part, slices, again);
    }
    BOOST_TEST(same_bits(whole, again));
  }
}

BOOST_AUTO_TEST_CASE(dividing_and_joining_is_lossless) {
  const std::uint64_t seed = test::fresh_seed();
  std::mt19937_64 random(seed);
  const auto one_of = [&](std::initializer_list<int> values) {
    return values.begin()[random() % values.size()];
  };
  for (int round = 0; round < 50; ++round) {
    const int shards = one_of({1, 2, 4}), kv_heads = one_of({1, 2, 4, 8});
    const HeadCounts counts{.heads = kv_heads * std::int64_t{one_of({4, 8})},
                            .kv_heads = kv_heads,
                            .head_dim = one_of({1, 3, 8})};
    const std::int64_t columns = one_of({1, 4, 20}), feed_forward = one_of({4, 12, 40});
    BOOST_TEST_CONTEXT("TROUPE_TEST_SEED=" << seed << " round " << round) {
      check_lossless({(counts.heads + 2 * counts.kv_heads) * counts.head_dim, columns}, shards, 0,
                     [&](int shard) { return joined_qkv_slices(counts, shards, shard); });
      check_lossless({2 * feed_forward, columns}, shards, 0,
                     [&](int shard) { return joined_gate_up_slices(feed_forward, shards, shard); });
      check_lossless({columns, feed_forward}, shards, 1, [&](int shard) {
        return std::array{even_slice("inputs", 1, feed_forward, shards, shard)};
      });
    }
  }
}

BOOST_AUTO_TEST_CASE(a_part_holds_its_projections_in_order) {
  Host host(1);
  const Tensor whole = host.ids({0, 1, 2, 3, 4, 5, 6, 7}), part = host.zeros(DType::i32, {4, 1});
  const Tensor rows{whole.data, DType::i32, {8, 1}};
  // Four query heads of one row each, then two key and two value heads.
  copy_to_shard(host.stream(), rows, joined_qkv_slices({4, 2, 1}, 2, 1), part);
  BOOST_TEST(same_bits(part, host.ids({2, 3, 5, 7})));
  copy_to_shard(host.stream(), rows, joined_gate_up_slices(4, 2, 1), part);
  BOOST_TEST(same_bits(part, host.ids({2, 3, 6, 7})));
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::tensor
