#include "stages/inference/shard_threads.h"

#include <boost/test/unit_test.hpp>
#include <vector>

#include "tests/contract/group_members.h"
#include "tests/support/expect_error.h"

BOOST_AUTO_TEST_SUITE(shard_threads_test)

using namespace troupe;
using namespace troupe::test;
using stages::ShardThreads;

/// x = the sum of the shards' x, as a layer of the shard forms it.
void add(ShardThreads& threads, int shard, const tensor::Tensor& x) {
  const MemberStream stream;
  const tensor::TensorParallel parallel{
      .size = threads.size(), .shard = shard, .groups = &threads.groups(shard)};
  wait(parallel.reduce(&tensor::TensorParallelGroups::forward, stream, x, x), stream);
}

BOOST_AUTO_TEST_CASE(a_sum_has_the_same_bits_on_all_shards) {
  for (const int shards : {2, 3, 5}) {
    ShardThreads threads(shards);
    for (const std::int64_t elements : {1, 2, 1000}) {
      std::vector<std::vector<float>> x(static_cast<std::size_t>(shards));
      for (std::size_t shard = 0; shard < x.size(); ++shard)
        for (std::int64_t i = 0; i < elements; ++i)
          x[shard].push_back(0.1f * static_cast<float>(i) + static_cast<float>(shard) / 3);
      std::vector<float> expected = x[0];
      for (std::size_t shard = 1; shard < x.size(); ++shard)
        for (std::size_t i = 0; i < expected.size(); ++i) expected[i] += x[shard][i];
      threads.run([&](int shard) {
        auto& own = x[static_cast<std::size_t>(shard)];
        add(threads, shard, {own.data(), tensor::DType::f32, {elements}});
      });
      for (const auto& own : x) BOOST_TEST((own == expected));
    }
  }
}

BOOST_AUTO_TEST_CASE(a_shard_that_fails_ends_the_job_of_all) {
  ShardThreads threads(3);
  for (const int failing : {0, 2}) {
    expect_error(ErrorKind::data, {"out of ids"}, [&] {
      threads.run([&](int shard) {
        if (shard == failing) throw Error(ErrorKind::data, "out of ids");
        float x = 1;
        add(threads, shard, {&x, tensor::DType::f32, {1}});
      });
    });
    std::vector<float> sums{1, 2, 3};
    threads.run([&](int shard) {
      add(threads, shard, {&sums[static_cast<std::size_t>(shard)], tensor::DType::f32, {1}});
    });
    BOOST_TEST((sums == std::vector<float>{6, 6, 6}));
  }
}

BOOST_AUTO_TEST_SUITE_END()
