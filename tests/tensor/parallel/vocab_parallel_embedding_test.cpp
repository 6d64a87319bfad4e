#include "tensor/parallel/vocab_parallel_embedding.h"

#include "tensor/errors/error.h"
#include "tests/tensor/shards.h"

namespace troupe::tensor {

BOOST_AUTO_TEST_SUITE(vocab_parallel_embedding_test)

namespace {

constexpr std::int64_t kT = 24, kV = 36, kC = 5;

/// Every fifth id is the same one, so that gradients add.
std::vector<std::int32_t> some_ids() {
  std::vector<std::int32_t> ids;
  for (int t = 0; t < kT; ++t) ids.push_back(t % 5 == 0 ? 17 : t * 31 % kV);
  return ids;
}

struct Numbers {
  std::vector<std::int32_t> ids = some_ids();
  Values table = normal_values(DType::f32, kV* kC, "table");
  Values dx;
};

struct Shard {
  Values x, dtable;
  std::map<std::string, Traffic> traffic;
};

/// A forward and two backwards; the second adds its gradient.
Shard run(Host& host, const TensorParallel& parallel, DType dtype, const Numbers& numbers) {
  VocabParallelEmbedding layer(host.device(), {.tokens = kT, .vocabulary = kV, .channels = kC},
                               parallel);
  const auto size = static_cast<std::size_t>(layer.range().size);
  const auto first_row = static_cast<std::size_t>(layer.range().first);
  const std::int64_t tokens = parallel.splits_tokens() ? kT / parallel.size : kT;
  const auto first_token =
      static_cast<std::size_t>(parallel.splits_tokens() ? parallel.shard * tokens : 0);

  const Tensor ids = host.ids(numbers.ids);
  const Tensor table = tensor_of(host, DType::f32, {layer.range().size, kC},
                                 rows_of(numbers.table, kC, first_row, size));
  const Tensor x = host.zeros(dtype, {tokens, kC});
  const bool gathers = layer.gathered_elements() > 0;
  layer.forward(host.stream(), ids, table, gathers ? host.zeros(dtype, {kT, kC}) : x, x);

  const Tensor dx =
      tensor_of(host, dtype, {tokens, kC},
                rows_of(numbers.dx, kC, first_token, static_cast<std::size_t>(tokens)));
  const Tensor dx_full = gathers ? host.zeros(dtype, {kT, kC}) : dx;
  const Tensor dtable = host.normal(DType::f32, {layer.range().size, kC}, "overwritten");
  layer.backward(host.stream(), ids, dx, dx_full, dtable, Gradient::first);
  layer.backward(host.stream(), ids, dx, dx_full, dtable, Gradient::added);
  return {.x = Host::read(x), .dtable = Host::read(dtable)};
}

std::vector<Shard> run_all(int size, Moves moves, bool sequence_parallel, DType dtype,
                           const Numbers& numbers) {
  return on_shards(size, moves, [&](Host& host, ThreadGroup& group) {
    const TensorParallelGroups groups{.forward = &group, .backward = &group};
    Shard shard = run(host, shards_of(groups, sequence_parallel), dtype, numbers);
    shard.traffic = group.traffic();
    return shard;
  });
}

BOOST_AUTO_TEST_CASE(every_number_of_shards_gives_the_bits_of_one) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const Numbers numbers{.dx = normal_values(dtype, kT * kC, "dx")};
    Host host(2);
    const Shard whole = run(host, {}, dtype, numbers);
    Values dtable = reference::embedding_backward(numbers.ids, numbers.dx, kV, kC);
    for (double& x : dtable) x *= 2;
    check_near(whole.x, reference::embedding(numbers.ids, numbers.table, kC), tolerance_of(dtype));
    check_near(whole.dtable, dtable, 2e-6);
    for (const bool sequence_parallel : {false, true}) {
      for_each_group([&](int size, Moves moves) {
        const auto shards = run_all(size, moves, sequence_parallel, dtype, numbers);
        const auto x = each(shards, &Shard::x);
        BOOST_TEST((sequence_parallel && size > 1 ? stacked(x) : x.back()) == whole.x);
        BOOST_TEST(stacked(each(shards, &Shard::dtable)) == whole.dtable);
      });
    }
  }
}

BOOST_AUTO_TEST_CASE(communicates_the_output_once) {
  const Numbers numbers{.dx = normal_values(DType::f32, kT * kC, "dx")};
  const std::int64_t bytes = kT * kC * 4;
  const auto plain = run_all(3, Moves::at_call, false, DType::f32, numbers).front().traffic;
  BOOST_TEST((plain == std::map<std::string, Traffic>{{"all-reduce", {1, bytes}}}));
  // A gather in each of the two backwards.
  const auto split = run_all(3, Moves::at_call, true, DType::f32, numbers).front().traffic;
  BOOST_TEST((split == std::map<std::string, Traffic>{{"all-gather", {2, 2 * bytes / 3}},
                                                      {"reduce-scatter", {1, bytes}}}));
  BOOST_TEST(run_all(1, Moves::at_call, true, DType::f32, numbers).front().traffic.empty());
}

BOOST_AUTO_TEST_CASE(refuses_what_the_shards_do_not_divide) {
  Host host(1);
  ThreadGroup group(std::make_shared<Meeting>(4), 1, Moves::at_call);
  const TensorParallelGroups groups{.forward = &group, .backward = &group};
  const auto make = [&](std::int64_t tokens, std::int64_t vocabulary, bool sequence_parallel) {
    VocabParallelEmbedding(host.device(), {tokens, vocabulary, 4},
                           shards_of(groups, sequence_parallel));
  };
  const auto is_manifest = [](const Error& error) { return error.kind() == ErrorKind::manifest; };
  BOOST_CHECK_EXCEPTION(make(8, 10, false), Error, is_manifest);
  BOOST_CHECK_EXCEPTION(make(10, 8, true), Error, is_manifest);
  make(10, 8, false);
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::tensor
